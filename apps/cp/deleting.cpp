// --delete: what is at the target, and not in the source.
#include "listing.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

namespace copy {
namespace {

// What the filter keeps out of a transfer is none of its business at the target either.
class protector {
 public:
  explicit protector(const filter& chosen) : filter_(chosen) {}

  // The names in `directory`, which is called `path`, that are excluded, or have something below that is.
  [[nodiscard]] std::vector<std::string> names_in(int directory, const std::string& path) {
    std::vector<std::string> kept;
    listing names;
    if (names.read(directory, buffer_) != 0) return kept;
    while (!names.at_end()) {
      const listing::name n = names.take();
      const std::string below = path == "." ? n.text : path + '/' + n.text;
      if (protects(directory, n.text, below)) kept.emplace_back(n.text);
    }
    return kept;
  }

 private:
  [[nodiscard]] bool protects(int directory, const char* name, const std::string& path) {
    struct stat s{};
    if (::fstatat(directory, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const bool is_directory = S_ISDIR(s.st_mode);
    if (filter_.excludes(path, is_directory)) return true;
    if (!is_directory) return false;
    constexpr int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const cordma::unique_fd fd(::openat(directory, name, how));
    constexpr std::size_t deepest =
        512;  // directories, each with a descriptor: what is below stays
    if (!fd || ++depth_ > deepest) return true;
    const bool any = !names_in(fd.get(), path).empty();
    --depth_;
    return any;
  }

  const filter& filter_;
  std::vector<char> buffer_ = std::vector<char>(64U << 10);
  std::size_t depth_ = 0;
};

}  // namespace

// What is excluded and there.
std::vector<std::string> receiver::protected_in(const std::string& directory) {
  if (filter_.empty()) return {};
  const std::string inside = directory == "." ? "x" : directory + "/x";
  const cordma::result<target::position> at = target_.find(inside);
  if (!at) return {};
  constexpr int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const cordma::unique_fd fd(::openat(at.value().directory, ".", how));
  if (!fd) return {};
  return protector(filter_).names_in(fd.get(), directory);
}

void receiver::delete_others(last_words& said, const std::atomic<bool>& canceled) {
  if (!said.all_read) {
    said.problems.push_back(
        {problem::kind::failed, ".", "nothing is deleted, since not all could be read"});
    return;
  }
  std::unordered_map<std::string_view, std::vector<std::string_view>> names;
  std::vector<std::string_view> directories;
  const auto stays = [&names](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const bool top = slash == std::string_view::npos;
    names[top ? std::string_view(".") : path.substr(0, slash)].push_back(
        top ? path : path.substr(slash + 1));
  };
  for (const entry& e : entries_) {
    if (e.kind == entry_kind::directory) directories.push_back(e.path);
    stays(e.path);
  }
  // What is there, and is not sent, is no other's either.
  for (const std::string& left : left_out_) stays(left);
  for (const std::string_view directory : directories) {
    if (canceled) return;
    if (options_.dry_run) {  // it may be that it would still have to be made
      const cordma::result<std::optional<struct stat>> there = target_.look(std::string(directory));
      if (!there || !there.value() || !S_ISDIR(there.value()->st_mode)) continue;
    }
    const std::vector<std::string> kept = protected_in(std::string(directory));
    std::vector<std::string_view>& stay = names[directory];
    stay.insert(stay.end(), kept.begin(), kept.end());
    const auto how = options_.dry_run ? target::removal::dry : target::removal::real;
    for (std::string& gone :
         target_.remove_others(std::string(directory), stay, how, said.problems)) {
      ++said.deleted;
      said.items.push_back({item::change::deleted, entry_kind::file, std::move(gone)});
    }
  }
}

}  // namespace copy
