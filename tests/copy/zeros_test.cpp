// Runs of zeros, and files that have holes in their place.
#include "../../apps/cp/files/zeros.hpp"

#include "target_tree.hpp"

#include <string>
#include <vector>

using namespace copy;
using namespace copy::test;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Returns the runs in blocks, such as "z3 d2"; the last block may be incomplete.
std::string runs_of(const std::string& text) {
  std::string all;
  std::span<const std::byte> rest = bytes_of(text);
  while (!rest.empty()) {
    const stretch next = first_stretch(rest);
    REQUIRE(next.bytes != 0);
    REQUIRE(next.bytes <= rest.size());
    if (!all.empty()) all += ' ';
    all += next.what == stretch::of::zeros ? 'z' : 'd';
    all += std::to_string((next.bytes + hole_block - 1) / hole_block);
    rest = rest.subspan(next.bytes);
  }
  return all;
}

const std::string zeros(std::size_t blocks) { return std::string(blocks * hole_block, '\0'); }
const std::string data(std::size_t blocks) { return std::string(blocks * hole_block, 'x'); }

}  // namespace

TEST_CASE("zeros are that, wherever the one is that is none") {
  const std::string none(hole_block, '\0');
  CHECK(is_zero(bytes_of(none)));
  CHECK(is_zero({}));
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, hole_block / 2, hole_block - 1}) {
    std::string one = none;
    one[at] = 1;
    CHECK_FALSE(is_zero(bytes_of(one)));
  }
  CHECK(is_zero(bytes_of(none).first(1)));
  CHECK_FALSE(is_zero(bytes_of("x")));
}

TEST_CASE("runs are of whole blocks, but for what is last") {
  CHECK(runs_of("").empty());
  CHECK(runs_of(zeros(3)) == "z3");
  CHECK(runs_of(data(2)) == "d2");
  CHECK(runs_of(zeros(1) + data(2) + zeros(3) + data(1)) == "z1 d2 z3 d1");
  CHECK(runs_of(data(1) + "x") == "d2");
  CHECK(runs_of(data(1) + std::string(5, '\0')) == "d1 z1");
  CHECK(runs_of(zeros(1) + std::string(5, '\0') + "x") == "z1 d1");
  // Zeros that do not fill a block are data.
  CHECK(runs_of("x" + zeros(1) + std::string(hole_block - 2, 'x') + "x") == "d2");
}

TEST_CASE("a file that is written sparsely is the same, and has holes") {
  const place_to_write here;
  const std::string text = zeros(64) + data(1) + zeros(64) + "x" + std::string(100, '\0');
  const fs::path at = here.root / "f";
  const cordma::unique_fd fd(::open(at.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(write_sparsely(fd.get(), bytes_of(text)) == 0);
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(text.size())) == 0);
  CHECK(read(at) == text);
  CHECK(look(at).st_blocks * 512 < static_cast<off_t>(text.size()) / 2);
  CHECK(write_sparsely(-1, bytes_of(text)) == EBADF);
}
