// Certificates of authorities that a test creates with the openssl command.
#pragma once

#include "temporary_tree.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace copy::test {

class certificates {
 public:
  // Creates "ca", which signed "server" (localhost, 127.0.0.1, ::1), "also" (the same), "elsewhere"
  // (other.example) and "expired" (as "server"); and "stranger", an unknown authority, which signed
  // "strange" (as "server").
  certificates() {
    const std::string here = "DNS:localhost,IP:127.0.0.1,IP:::1";
    authority("ca");
    authority("stranger");
    issue("server", "ca", here);
    issue("also", "ca", here);
    issue("elsewhere", "ca", "DNS:other.example");
    issue("expired", "ca", here, -1);
    issue("strange", "stranger", here);
  }
  // Returns one set for all cases of a process.
  static const certificates& shared() {
    static const certificates made;
    return made;
  }

  [[nodiscard]] std::string of(const std::string& name) const { return tree_.at(name + ".pem"); }
  [[nodiscard]] std::string key_of(const std::string& name) const {
    return tree_.at(name + ".key");
  }
  [[nodiscard]] const temporary_tree& tree() const noexcept { return tree_; }

 private:
  static constexpr const char* new_key =
      "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ";
  void run(const std::string& command) const {
    const std::string all = "cd " + tree_.root() + " && openssl " + command + " 2>> said";
    REQUIRE_MESSAGE(std::system(all.c_str()) == 0, command);
  }
  void authority(const std::string& name) const {
    run("req -x509 " + (new_key + name) + ".key -out " + name + ".pem -days 2 -subj /CN=" + name);
  }
  void issue(const std::string& name, const std::string& by, const std::string& names,
             int days = 2) const {
    tree_.file(name + ".names", "subjectAltName=" + names);
    run("req -new " + (new_key + name) + ".key -out " + name + ".csr -subj /CN=" + name);
    run("x509 -req -in " + name + ".csr -out " + name + ".pem -CA " + by + ".pem -CAkey " + by +
        ".key -CAcreateserial -days " + std::to_string(days) + " -extfile " + name + ".names");
  }
  temporary_tree tree_;
};

}  // namespace copy::test
