// Values written to a configuration or ACL file are read back unchanged, with any bytes in them.
#include "../../apps/kv/server/configuration.hpp"
#include "resp_ground.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <unistd.h>

using namespace kv_test;

namespace {

constexpr std::uint64_t seeds = 400;

// Texts with and without characters that are special in these files.
class odd_texts {
 public:
  explicit odd_texts(std::uint64_t seed) : dice_(seed) {}
  [[nodiscard]] std::size_t below(std::size_t n) { return dice_() % n; }
  [[nodiscard]] std::string text() {
    static constexpr std::array<std::string_view, 20> parts{"a",
                                                            "b",
                                                            " ",
                                                            "\"",
                                                            "'",
                                                            "\\",
                                                            "#",
                                                            "\n",
                                                            "\r",
                                                            "\t",
                                                            "\\x0",
                                                            "\v",
                                                            "\x7f",
                                                            "*",
                                                            "\xe9",
                                                            "?",
                                                            "-x",
                                                            "[",
                                                            std::string_view("\0", 1),
                                                            "\xe2\x82\xac"};
    std::string made;
    for (std::size_t n = below(7); n != 0; --n) made += parts[below(parts.size())];
    return made;
  }

 private:
  std::mt19937_64 dice_;
};

std::string random_rule(odd_texts& odd, const kv::command_table& table) {
  static constexpr std::array<std::string_view, 10> plain{
      "on",    "off",   "nopass",        "allkeys",          "allchannels",
      "+@all", "-@all", "resetchannels", "sanitize-payload", "skip-sanitize-payload"};
  static constexpr std::array<std::string_view, 6> kinds{"~", "%R~", "%W~", "%RW~", "&", ">"};
  const auto all = table.all();
  const std::string sign = odd.below(2) == 0 ? "+" : "-";
  switch (odd.below(8)) {
    case 0: return std::string(plain[odd.below(plain.size())]);
    case 1: return sign + "@" + std::string(kv::category_names()[odd.below(21)]);
    case 2: return sign + all[odd.below(all.size())].full_name;
    default: return std::string(kinds[odd.below(kinds.size())]) + odd.text();
  }
}

void check_same(const kv::users& one, const kv::users& other) {
  const auto ones = one.all();
  const auto others = other.all();
  REQUIRE(ones.size() == others.size());
  for (std::size_t i = 0; i < ones.size(); ++i) {
    const kv::user& a = *ones[i];
    const kv::user& b = *others[i];
    CAPTURE(a.describe());
    CHECK(a.name == b.name);
    CHECK(a.enabled == b.enabled);
    CHECK(a.any_password == b.any_password);
    CHECK(a.passwords == b.passwords);
    CHECK(a.allowed == b.allowed);
    CHECK(a.all_keys == b.all_keys);
    CHECK(a.keys == b.keys);
    CHECK(a.payloads == b.payloads);
    CHECK(a.all_channels == b.all_channels);
    CHECK(a.channels == b.channels);
  }
}

class scratch_file {
 public:
  explicit scratch_file(const char* name)
      : path((std::filesystem::temp_directory_path() / (name + std::to_string(::getpid())))
                 .string()) {
    std::ofstream(path) << "# mine\n";
  }
  ~scratch_file() { std::filesystem::remove(path); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  [[nodiscard]] std::string text() const {
    std::stringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    return all.str();
  }
  const std::string path;
};

}  // namespace

TEST_CASE("users with any rules are the same when they are read from a file") {
  const kv::command_table table;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    odd_texts odd(seed);
    kv::users made(table);
    for (int user = 0; user < 3; ++user) {
      const std::string name = user == 0 ? std::string("default") : odd.text();
      for (int i = 0; i < 12; ++i) {
        const std::string rule = random_rule(odd, table);
        static_cast<void>(made.set(name, std::array<std::string_view, 1>{rule}));
      }
    }
    kv::users listed(table);
    REQUIRE(listed.load(made.save()) == "");
    check_same(made, listed);
    std::string text;
    for (const auto& u : made.all()) text += "user " + u->line() + '\n';
    kv::users configured(table);
    REQUIRE(configured.configure({}, kv::read_options(text, "f", {}).configured.users) == "");
    check_same(made, configured);
  }
}

TEST_CASE("settings with any bytes are the same when they are read from a file") {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    odd_texts odd(seed);
    kv::settings now;
    std::string before;
    for (const kv::parameter& p : kv::all_parameters()) {
      std::string value = odd.text();
      if (odd.below(3) == 0) value = kv::as_word(value) + ' ' + kv::as_word(odd.text());
      kv::settings next = now;
      if (p.name == "aclfile" || !p.set(next, value).empty()) continue;
      now = next;
      if (odd.below(2) == 0) before += std::string(p.name) + " x\n";
    }
    const std::string text = kv::rewrite_settings(before, now, {});
    CAPTURE(text);
    const kv::settings again = kv::read_options(text, "f", {}).configured.values;
    for (const kv::parameter& p : kv::all_parameters()) {
      CAPTURE(p.name);
      CHECK(p.get(again) == p.get(now));
    }
    CHECK(again.bind == now.bind);
  }
}

TEST_CASE("a user with more rules than fit 64 KiB is read as a whole") {
  const kv::command_table table;
  kv::users made(table);
  std::vector<std::string> rules;
  for (int i = 0; i < 2000; ++i) rules.push_back(">" + std::to_string(i));
  rules.emplace_back("~last");
  const std::vector<std::string_view> views(rules.begin(), rules.end());
  REQUIRE(made.set("bob", views).empty());
  kv::users again(table);
  REQUIRE(again.load(made.save()).empty());
  check_same(made, again);
}

TEST_CASE("CONFIG REWRITE keeps what ACL SETUSER made of the default user's password") {
  struct change {
    const char* rules;
    const char* requirepass;
    bool others;
  };
  for (const change& one : {change{">two", "", true}, change{"~a*", "one", false}}) {
    CAPTURE(one.rules);
    const scratch_file file("cordma-kv-rewritten.");
    server s({}, 1, 1, file.path);
    client c(s);
    CHECK(c("CONFIG SET requirepass one") == ok);
    if (one.rules[0] == '~') CHECK(c("ACL SETUSER default resetkeys") == ok);
    CHECK(c("ACL SETUSER default " + std::string(one.rules)) == ok);
    CHECK(c("CONFIG REWRITE") == ok);
    const kv::parsed_settings read = kv::parse_settings(file.text());
    CHECK(read.values.requirepass == one.requirepass);
    kv::users again(s.of.commands());
    REQUIRE(again.configure({}, read.users).empty());
    check_same(s.of.accounts(), again);
    CHECK((again.authenticate("default", "two") != nullptr) == one.others);
  }
}
