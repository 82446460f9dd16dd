// A file that the receiver writes.
#pragma once

#include "../files/direct.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace copy {

// For people: what the system says, where it was the system, and who has it where somebody has.
[[nodiscard]] inline std::string describe(const cordma::failure& why) {
  if (why.os_errno() == EBUSY) return why.message();
  return why.os_errno() != 0 ? std::strerror(why.os_errno()) : why.describe();
}

struct receiver::incoming {
  std::uint32_t number = 0;
  const entry* what = nullptr;
  item::change change = item::change::made;
  std::uint16_t differs = 0;
  cordma::unique_fd fd;  // once the first of it is here
  direct_way direct;
  std::uint64_t bytes_here = 0;            // of what it is written into, before
  std::vector<bool> missing;               // chunks that have not come
  std::uint64_t left = 0;                  // chunks that are not in the file
  std::uint32_t writing = 0;               // chunks under way
  std::uint32_t damaged = 0;               // chunks that came damaged
  std::uint64_t came = 0;                  // bytes that came in chunks and bundles
  std::uint64_t resumed = 0;               // bytes that were there already
  std::optional<std::uint32_t> mode_here;  // of what it takes the place of
  bool directory_here = false;             // it takes the place of one
  std::vector<std::string> gone;           // with what was in it
  bool in_place = false;                   // --inplace: it has no part, and ends with a mark
  bool unnamed = false;                    // it has no part, and no name
  bool ended = false;                      // the sender has no more of it
  bool concluding = false;
  file_end::how source = file_end::how::whole;
  std::string why;  // it fails; empty: it does not

  // Of what is written in order.
  std::uint64_t next = 0;  // the chunk whose turn it is
  cordma::event turn;
  // Of a stream.
  std::uint64_t bytes = 0;  // that have come
  bool told = false;        // its failure

  // Where it can be resumed.
  bool resumable = false;
  std::optional<resume_state> sidecar;
  bool vouched = false;  // by it: the part is as it was noted

  [[nodiscard]] bool is_stream() const noexcept { return what->kind == entry_kind::stream; }
  [[nodiscard]] std::uint32_t bytes_of(std::uint64_t index, std::uint32_t chunk) const noexcept {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, what->size - index * chunk));
  }
};

}  // namespace copy
