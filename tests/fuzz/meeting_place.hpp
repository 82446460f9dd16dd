// The directory of a fuzz target's rendezvous sockets: private to this process, and removed at its
// end.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

struct meeting_place {
  const std::string path = "/tmp/cordma-fuzz-" + std::to_string(::getpid());
  meeting_place() = default;
  meeting_place(const meeting_place&) = delete;
  meeting_place& operator=(const meeting_place&) = delete;
  ~meeting_place() {
    std::error_code gone_already;
    std::filesystem::remove_all(path, gone_already);
  }
};
