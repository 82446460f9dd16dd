// A server that reads its configuration again.
#include "../../apps/kv/journal/folder_lock.hpp"
#include "../../apps/kv/server/limits.hpp"
#include "../../apps/kv/server/server.hpp"
#include "door_stage.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <sys/stat.h>

using namespace kv;
using namespace kv::test;

namespace {

// The folder of a server, and the working directory of this process.
struct folder {
  folder() {
    char name[] = "/tmp/cordma-kv-reload-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~folder() {
    std::filesystem::current_path(before);
    std::filesystem::remove_all(path);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::filesystem::path before = std::filesystem::current_path();
  std::string path;
};

// A server with clients that connect over a unix socket.
class running_server {
 public:
  explicit running_server(const std::string& text)
      : log_(home_.path + "/log"), server_(std::make_unique<server>(options(text), log_, [] {})) {
    server_->open();
  }
  void reload(const std::string& text) {
    server_->mind_rewritten([](const std::string& t) { return read_options(t, "kv.conf", {}); });
    server_->reload(options(text));
  }
  [[nodiscard]] std::string path() const { return home_.path + "/s"; }
  [[nodiscard]] const std::vector<std::string>& addresses() const { return server_->addresses(); }
  [[nodiscard]] const std::string& folder_path() const noexcept { return home_.path; }
  // Returns the first line of the response to `asked`.
  [[nodiscard]] std::string answer(std::string_view asked) const {
    const visitor c(path());
    REQUIRE(c.say(std::string(asked) + "\r\nQUIT\r\n"));
    const std::string heard = c.hear(4096);
    return heard.substr(0, heard.find("\r\n"));
  }
  [[nodiscard]] std::string value(const std::string& name) const {
    const visitor c(path());
    REQUIRE(c.say("CONFIG GET " + name + "\r\nQUIT\r\n"));
    std::istringstream heard(c.hear(4096));
    std::string line;
    for (int i = 0; i < 5; ++i) std::getline(heard, line);  // *2, $, the name, $, the value
    return line.substr(0, line.find('\r'));
  }
  [[nodiscard]] bool logged(std::string_view line) const {
    std::ostringstream text;
    text << std::ifstream(home_.path + "/log").rdbuf();
    return text.view().find(line) != std::string_view::npos;
  }

 private:
  [[nodiscard]] server_options options(const std::string& text) const {
    return read_options(
        "port 0\nsave \"\"\nio asio\nunixsocket " + path() + "\ndir " + home_.path + "\n" + text,
        "kv.conf", {});
  }
  folder home_;
  logbook log_;
  std::unique_ptr<server> server_;
};

}  // namespace

TEST_CASE("where to listen is waited for, as one that is being killed lets go of it") {
  const folder here;
  const std::string path = here.path + "/held";
  std::optional<listening> held = listen_unix(path, 0, {});
  std::optional<running_server> s;
  std::string failed;
  std::thread opening([&] {
    try {
      s.emplace("unixsocket " + path + "\n");
    } catch (const std::exception& e) {
      failed = e.what();
    }
  });
  pollfd looked{.fd = held->socket.get(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&looked, 1, 60'000) == 1);  // it tried to connect
  held.reset();
  opening.join();
  CHECK(failed.empty());
  REQUIRE(s);
  CHECK(std::ranges::find(s->addresses(), "unix " + path) != s->addresses().end());
}

TEST_CASE("a configuration that is read again changes its users, and the log says which") {
  running_server s("user bob on >one ~* +@all\nuser eve on >two ~* +@all\nmaxclients 100\n");
  CHECK(s.answer("AUTH bob one") == "+OK");
  CHECK(s.answer("ACL SETUSER zoe on nopass +@all") == "+OK");
  s.reload(
      "user bob on >three ~* +@all\nuser ann on >four ~* +@all\nmaxclients 200\n"
      "tcp-backlog 99\npidfile /nowhere\n");
  CHECK(s.answer("AUTH bob one").starts_with("-WRONGPASS"));
  CHECK(s.answer("AUTH bob three") == "+OK");
  CHECK(s.answer("AUTH ann four") == "+OK");
  CHECK(s.answer("AUTH eve two").starts_with("-WRONGPASS"));
  CHECK(s.answer("AUTH zoe any") == "+OK");  // a user that is not in the configuration
  for (const char* line :
       {"user bob has changed", "user ann is new", "user eve is gone", "maxclients is now \"200\"",
        "tcp-backlog has changed in the configuration, which takes a restart",
        "pidfile has changed in the configuration, which takes a restart"}) {
    CAPTURE(line);
    CHECK(s.logged(line));
  }
  CHECK_FALSE(s.logged("user zoe"));
  CHECK_FALSE(s.logged("user default"));
}

TEST_CASE("a password is another from then on, and users beside it stay") {
  running_server s("requirepass one\nuser default on >old ~* +@all\n");
  CHECK(s.answer("AUTH one") == "+OK");
  s.reload("requirepass two\n");
  CHECK(s.answer("AUTH one").starts_with("-WRONGPASS"));
  CHECK(s.answer("AUTH old").starts_with("-WRONGPASS"));
  CHECK(s.answer("AUTH two") == "+OK");
  CHECK(s.answer("PING") == "-NOAUTH Authentication required.");
  CHECK(s.logged("requirepass is now another"));
  CHECK(s.logged("user default has changed"));
  CHECK_FALSE(s.logged("two"));
}

TEST_CASE("users that go to an ACL file, or come from one, do so at a restart") {
  const std::string lines = "user default on >one ~* +@all\nuser bob on >two ~* +@all\n";
  running_server s(lines);
  const std::string file = s.folder_path() + "/users";
  std::ofstream(file) << "user default on >three ~* +@all\n";
  s.reload("aclfile " + file + "\nmaxclients 200\n");
  CHECK(s.answer("PING").starts_with("-NOAUTH"));
  CHECK(s.answer("AUTH one") == "+OK");
  CHECK(s.answer("AUTH bob two") == "+OK");
  CHECK(s.logged("aclfile has changed in the configuration, which takes a restart"));
  CHECK(s.logged("maxclients is now \"200\""));
  CHECK_FALSE(s.logged("user default has changed"));
  s.reload(lines + "user ann on >four ~* +@all\n");  // and back
  CHECK(s.answer("AUTH ann four") == "+OK");
  CHECK(s.answer("AUTH bob two") == "+OK");
}

TEST_CASE("a password that goes to an ACL file is asked for until the restart") {
  running_server s("requirepass one\n");
  const std::string file = s.folder_path() + "/users";
  std::ofstream(file) << "user default on >one ~* +@all\n";
  s.reload("aclfile " + file + "\n");
  CHECK(s.answer("PING").starts_with("-NOAUTH"));
  CHECK(s.answer("AUTH one") == "+OK");
  CHECK(s.logged("requirepass has changed in the configuration, which takes a restart"));
}

TEST_CASE("of a configuration that is wrong nothing is taken over") {
  running_server s("user bob on >one ~* +@all\nmaxclients 100\n");
  CHECK_THROWS_WITH_AS(s.reload("maxclients 200\nuser bob on >two +@nonsense\n"),
                       doctest::Contains("user bob: Error in ACL SETUSER modifier '+@nonsense'"),
                       cordma::error);
  CHECK_THROWS_WITH_AS(s.reload("maxclients 200\nuser bob off\naclfile users\n"),
                       doctest::Contains("have them all in users"), cordma::error);
  CHECK(s.answer("AUTH bob one") == "+OK");
  CHECK(s.value("maxclients") == "100");
}

TEST_CASE("users of an ACL file are there from the start, and read again") {
  CHECK_THROWS_WITH_AS(running_server("aclfile users\n"),
                       doctest::Contains("aclfile: users: cannot be read"), cordma::error);
  const std::string file =
      (std::filesystem::temp_directory_path() / ("cordma-kv-users." + std::to_string(::getpid())))
          .string();
  const auto write = [&](std::string_view text) { std::ofstream(file) << text; };
  write("user bob on >one ~* +@all\nuser default off\n");
  running_server s("aclfile " + file + "\nrequirepass secret\n");
  CHECK(s.answer("PING").starts_with("-NOAUTH"));
  CHECK(s.answer("AUTH bob one") == "+OK");
  write("user bob on >two ~* +@all\nuser default off\n");
  s.reload("aclfile " + file + "\nrequirepass secret\n");
  CHECK(s.answer("AUTH bob two") == "+OK");
  CHECK(s.logged("user bob has changed"));
  write("user bob on ~* +@all\nuser who is this\n");
  CHECK_THROWS_WITH_AS(s.reload("aclfile " + file + "\nrequirepass secret\nmaxclients 7\n"),
                       doctest::Contains("line 2: "), cordma::error);
  CHECK(s.answer("AUTH bob two") == "+OK");
  CHECK_FALSE(s.logged("maxclients is now"));
  std::filesystem::remove(file);
}

TEST_CASE(
    "where a folder is another's, of a configuration that is to keep something nothing is taken") {
  running_server s("user bob on >one ~* +@all\nmaxclients 100\n");
  const cordma::result<cordma::unique_fd> lock = lock_folder(s.folder_path(), {});
  REQUIRE(lock);
  CHECK_THROWS_WITH_AS(s.reload("appendonly yes\nmaxclients 200\nuser bob on >two ~* +@all\n"),
                       doctest::Contains("end that one first"), cordma::error);
  CHECK(s.answer("AUTH bob one") == "+OK");
  CHECK(s.value("maxclients") == "100");
  CHECK(s.value("appendonly") == "no");
}

TEST_CASE("what CONFIG SET said while a configuration is being read again stays [1, 3 workers]") {
  for (const char* const workers : {"1", "3"}) {
    CAPTURE(workers);
    const folder here;
    const std::string file = here.path + "/users";
    std::ofstream(file) << "user default on nopass ~* &* +@all\n";
    const std::string text = "threads " + std::string(workers) + "\naclfile " + file + "\n";
    running_server s(text + "maxclients 100\n");
    std::filesystem::remove(file);
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);  // its reader waits for the data written below
    std::thread reloading([&] { s.reload(text + "maxclients 200\n"); });
    {
      std::ofstream users(file);
      CHECK(s.answer("CONFIG SET slowlog-max-len 77 timeout 88") == "+OK");
      users << "user default on nopass ~* &* +@all\n";
    }
    reloading.join();
    CHECK(s.value("slowlog-max-len") == "77");
    CHECK(s.value("timeout") == "88");
    CHECK(s.value("maxclients") == "200");
  }
}

TEST_CASE("what CONFIG REWRITE wrote is no change, what is changed by hand afterwards is one") {
  running_server s("maxmemory 100mb\nuser bob on >one ~* +@all\n");
  CHECK(s.answer("CONFIG SET maxmemory 200mb timeout 7") == "+OK");
  CHECK(s.answer("ACL SETUSER ann on >two ~* +@all") == "+OK");
  CHECK(s.answer("CONFIG REWRITE") == "+OK");
  CHECK(s.answer("CONFIG SET timeout 8") == "+OK");
  CHECK(s.answer("ACL SETUSER ann >three") == "+OK");
  std::ostringstream text;
  text << std::ifstream(s.folder_path() + "/kv.conf").rdbuf();
  s.reload(text.str());
  CHECK(s.value("maxmemory") == std::to_string(200 << 20));
  CHECK(s.value("timeout") == "8");
  CHECK(s.answer("AUTH ann three") == "+OK");
  s.reload("maxmemory 100mb\ntimeout 7\nuser bob on >one ~* +@all\n");
  CHECK(s.value("maxmemory") == std::to_string(100 << 20));
  CHECK(s.value("timeout") == "8");
  CHECK(s.answer("AUTH ann three").starts_with("-WRONGPASS"));
  CHECK(s.answer("AUTH bob one") == "+OK");
}

TEST_CASE("maxclients above what the system can do is refused, and of a configuration cut down") {
  running_server s("maxclients 100\n");
  CHECK(s.answer("CONFIG SET maxclients 4000000000")
            .starts_with("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The "
                         "operating system is not able to handle the specified number of clients, "
                         "try with "));
  CHECK(s.answer("CONFIG SET maxclients 101") == "+OK");
  s.reload("maxclients 4000000000\n");
  CHECK(s.logged(" and not 4000000000: the limit of open files is "));
  CHECK(s.logged("maxclients is now \""));
  CHECK_FALSE(s.logged("maxclients is now \"4000000000"));
}

TEST_CASE("limits are said with what to do about them") {
  CHECK(limits_text(1024, 8 << 20) == "open files 1024, locked memory 8.0 MiB");
  CHECK(limits_text(RLIM_INFINITY, RLIM_INFINITY) ==
        "open files unlimited, locked memory unlimited");
  CHECK(files_wanted(10000, doors::redis) == 10096);
  CHECK(files_wanted(10000, doors::redis_and_native) == 40096);
  for (const doors open : {doors::redis, doors::redis_and_native}) {
    CHECK(clients_possible(files_wanted(24, open), open) == 24);
    CHECK(clients_possible(files_wanted(24, open) - 1, open) == 23);
    CHECK(clients_possible(other_files, open) == 0);
    CHECK(files_wanted(UINT64_MAX, open) < RLIM_INFINITY);
  }
  CHECK(how_to_raise_files(10096) ==
        "`ulimit -n 10096` in the shell that starts it, or LimitNOFILE=10096 in the unit's "
        "[Service]");
  CHECK(locked_memory_warning(RLIM_INFINITY, 0).empty());
  CHECK(locked_memory_warning(rlim_t{2} << 30, std::uint64_t{1} << 30).empty());
  CHECK(locked_memory_warning(8 << 20, 0).find("`ulimit -l unlimited`") != std::string::npos);
  CHECK(locked_memory_warning(8 << 20, 0).find("LimitMEMLOCK=infinity") != std::string::npos);
  const std::string more = locked_memory_warning(8 << 20, std::uint64_t{1} << 30);
  CHECK(more.starts_with("the limit of locked memory is 8.0 MiB"));
  CHECK(more.find("`ulimit -l 1114112`") != std::string::npos);
  CHECK(more.find("LimitMEMLOCK=1140850688 ") != std::string::npos);
}
