// A file that the sender reads.
#pragma once

#include "../files/direct.hpp"
#include "sender.hpp"

#include <string>

#include <sys/stat.h>

namespace copy {

inline constexpr const char* changed_meanwhile = "it changed while it was read";

[[nodiscard]] inline bool is_as_found(const entry& e, const struct stat& s) noexcept {
  return static_cast<std::uint64_t>(s.st_size) == e.size && s.st_mtim.tv_sec == e.modified.s &&
         static_cast<std::uint32_t>(s.st_mtim.tv_nsec) == e.modified.ns;
}

struct sender::outgoing {
  explicit outgoing(sender& owner) noexcept : of(owner) { ++of.open_; }
  outgoing(const outgoing&) = delete;
  outgoing& operator=(const outgoing&) = delete;
  ~outgoing() {
    --of.open_;
    of.closed_here_.set();
  }

  sender& of;
  std::uint32_t number = 0;
  const entry* what = nullptr;
  cordma::unique_fd fd;
  direct_way direct;
  std::uint64_t left = 0;  // chunks that have not been sent to the receiver
  bool ended = false;      // its file_end has been sent
  file_end::how how = file_end::how::whole;
  std::string why;
};

}  // namespace copy
