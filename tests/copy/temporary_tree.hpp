// A temporary directory of a test, and functions that create its contents.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace copy::test {

// The destructor removes it with all its contents. Paths are relative to it; parents are created.
class temporary_tree {
 public:
  temporary_tree() {
    root_ = (std::filesystem::temp_directory_path() / "cordma-copy-XXXXXX").string();
    REQUIRE(::mkdtemp(root_.data()) != nullptr);
  }
  temporary_tree(const temporary_tree&) = delete;
  temporary_tree& operator=(const temporary_tree&) = delete;
  ~temporary_tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] const std::string& root() const noexcept { return root_; }
  [[nodiscard]] std::string at(std::string_view path) const {
    return root_ + '/' + std::string(path);
  }
  void directory(std::string_view path) const { std::filesystem::create_directories(at(path)); }
  void file(std::string_view path, std::string_view contents = {}) const {
    make_parent(path);
    std::ofstream out(at(path), std::ios::binary);
    out << contents;
    REQUIRE_MESSAGE(out.flush().good(), path);
  }
  void symlink(std::string_view path, const std::string& text) const {
    make_parent(path);
    REQUIRE(::symlink(text.c_str(), at(path).c_str()) == 0);
  }
  void hard_link(std::string_view path, std::string_view to) const {
    make_parent(path);
    REQUIRE(::link(at(to).c_str(), at(path).c_str()) == 0);
  }

 private:
  void make_parent(std::string_view path) const {
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
  }
  std::string root_;
};

}  // namespace copy::test
