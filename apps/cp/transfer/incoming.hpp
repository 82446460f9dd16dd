// A file that the receiver writes.
#pragma once

#include "../files/direct.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace copy {

// Returns a text for people: the system's message for an errno, and for EBUSY the failure's own
// message, which names the process that has the file.
[[nodiscard]] inline std::string describe(const cordma::failure& why) {
  if (why.os_errno() == EBUSY) return why.message();
  return why.os_errno() != 0 ? std::strerror(why.os_errno()) : why.describe();
}

struct receiver::incoming {
  std::uint32_t number = 0;
  const entry* what = nullptr;
  item::change change = item::change::made;
  std::uint16_t differs = 0;
  cordma::unique_fd fd;  // opened when the first chunk is written
  direct_way direct;
  std::uint64_t bytes_here = 0;            // size of the opened file before the transfer, in bytes
  std::vector<bool> missing;               // chunks that have not arrived
  std::uint64_t left = 0;                  // chunks that are not in the file yet
  std::uint32_t writing = 0;               // chunks being written
  std::uint32_t damaged = 0;               // chunks that arrived damaged
  std::uint64_t came = 0;                  // received bytes, in chunks and bundles
  std::uint64_t resumed = 0;               // bytes that an earlier transfer left
  std::optional<std::uint32_t> mode_here;  // mode of the file that it replaces
  bool directory_here = false;             // it replaces a directory
  std::vector<std::string> gone;           // paths removed with that directory
  bool in_place = false;                   // --inplace: no part; the file ends with a mark
  bool unnamed = false;                    // no part and no name (O_TMPFILE)
  bool ended = false;                      // the sender sends no more of it
  bool concluding = false;
  file_end::how source = file_end::how::whole;
  std::string why;  // reason of the failure; empty: none

  // For output that is written in order.
  std::uint64_t next = 0;  // index of the chunk to write next
  cordma::event turn;
  // For a stream.
  std::uint64_t bytes = 0;  // received so far
  bool told = false;        // its failure has been reported

  // For a file that can be resumed.
  bool resumable = false;
  std::optional<resume_state> sidecar;
  bool vouched = false;  // the sidecar vouches for the part

  [[nodiscard]] bool is_stream() const noexcept { return what->kind == entry_kind::stream; }
  [[nodiscard]] std::uint32_t bytes_of(std::uint64_t index, std::uint32_t chunk) const noexcept {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, what->size - index * chunk));
  }
};

}  // namespace copy
