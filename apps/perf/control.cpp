#include "control.hpp"

#include <nlohmann/json.hpp>

#include <cstring>

namespace perf {
namespace {

using cordma::errc;
using nlohmann::json;

constexpr std::string_view greeting_mark = "prf1";

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::byte b : bytes) {
    text += digits[static_cast<std::size_t>(b) >> 4];
    text += digits[static_cast<std::size_t>(b) & 15];
  }
  return text;
}

std::vector<std::byte> from_hex(const std::string& text) {
  if (text.size() % 2 != 0 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    cordma::throw_error({errc::invalid_value, "a memory description that is no hexadecimal text"});
  }
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// What `read` makes of the text; anything it or the parser throws means: not what was expected.
template <class Read>
auto decode(std::string_view text, Read read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& e) {
    cordma::throw_error({errc::invalid_value,
                         std::string("the peer is no cordma-perf of this version: ") + e.what()});
  }
}

void require_version(const json& j) {
  const int theirs = j.at("version").get<int>();
  if (theirs == control_version) return;
  cordma::throw_error({errc::unsupported_version, "the peer's cordma-perf speaks version " +
                                                      std::to_string(theirs) + ", this one " +
                                                      std::to_string(control_version)});
}

template <class T>
T at_most(const json& j, const char* key, T limit) {
  const T value = j.at(key).get<T>();
  if (value <= limit) return value;
  cordma::throw_error({errc::invalid_value, std::string("the peer's ") + key + " of " +
                                                std::to_string(value) + " is above the limit of " +
                                                std::to_string(limit)});
}

plan plan_of(const json& j) {
  plan p;
  const auto name = j.at("test").get<std::string>();
  const std::optional<test> t = parse_test(name);
  if (!t) cordma::throw_error({errc::not_supported, "the peer asks for a test \"" + name + "\""});
  p.what = *t;
  p.size = at_most<std::uint64_t>(j, "size", largest_size);
  p.outstanding = at_most<std::uint32_t>(j, "outstanding", most_outstanding);
  p.check = j.at("check").get<bool>();
  if (p.size == 0 || p.outstanding == 0) {
    cordma::throw_error({errc::invalid_value, "the peer's size or window is zero"});
  }
  return p;
}

constexpr std::string_view order_names[] = {"run", "stop", "bye"};

}  // namespace

std::array<std::byte, greeting_bytes> greeting(std::uint32_t outstanding) noexcept {
  std::array<std::byte, greeting_bytes> bytes{};
  std::memcpy(bytes.data(), greeting_mark.data(), greeting_mark.size());
  for (std::size_t i = 0; i < 4; ++i) bytes[4 + i] = static_cast<std::byte>(outstanding >> (8 * i));
  return bytes;
}

std::uint32_t outstanding_of(std::span<const std::byte> private_data) noexcept {
  if (private_data.size() < greeting_bytes ||
      std::memcmp(private_data.data(), greeting_mark.data(), greeting_mark.size()) != 0) {
    return 0;
  }
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(private_data[4 + i]) << (8 * i);
  }
  return value <= most_outstanding ? value : 0;
}

std::string encode(const opening& m) {
  return json{{"version", control_version}, {"test", std::string(facts(m.what.what).name)},
              {"size", m.what.size},        {"outstanding", m.what.outstanding},
              {"check", m.what.check},      {"memory", to_hex(m.blob)}}
      .dump();
}

std::string encode(const welcome& m) {
  return json{
      {"memory", to_hex(m.blob)}, {"wait", m.wait}, {"port", m.port}, {"complaint", m.complaint}}
      .dump();
}

std::string encode(const order& m) {
  return json{{"do", order_names[static_cast<std::size_t>(m.what)]}, {"count", m.count}}.dump();
}

std::string encode(const closing& m) {
  json j{{"wrong", m.wrong}};
  for (const usage_field& f : usage_fields) j[f.name] = m.spent.*f.value;
  return j.dump();
}

opening decode_opening(std::string_view text) {
  return decode(text, [](const json& j) {
    require_version(j);
    return opening{plan_of(j), from_hex(j.at("memory").get<std::string>())};
  });
}

welcome decode_welcome(std::string_view text) {
  return decode(text, [](const json& j) {
    return welcome{from_hex(j.at("memory").get<std::string>()), j.at("wait").get<std::string>(),
                   j.at("port").get<std::uint16_t>(), j.at("complaint").get<std::string>()};
  });
}

order decode_order(std::string_view text) {
  return decode(text, [](const json& j) {
    const auto name = j.at("do").get<std::string>();
    for (std::size_t i = 0; i < std::size(order_names); ++i) {
      if (name == order_names[i]) {
        return order{static_cast<order::kind>(i), j.at("count").get<std::uint64_t>()};
      }
    }
    cordma::throw_error({errc::invalid_value, "the peer orders \"" + name + "\""});
  });
}

closing decode_closing(std::string_view text) {
  return decode(text, [](const json& j) {
    closing m;
    m.wrong = j.at("wrong").get<std::uint64_t>();
    for (const usage_field& f : usage_fields) m.spent.*f.value = j.at(f.name).get<std::int64_t>();
    return m;
  });
}

channel::channel(cordma::Context& context, cordma::Endpoint& endpoint)
    : endpoint_(endpoint), region_(context.allocate(2 * control_bytes).value()) {}

cordma::recv_operation channel::expect() noexcept {
  return endpoint_.recv(region_.all().part(0, control_bytes));
}

std::string_view channel::text(const cordma::Received& got) const noexcept {
  return {reinterpret_cast<const char*>(region_.data()), got.bytes};
}

cordma::send_operation channel::tell(std::string_view text) noexcept {
  CORDMA_REQUIRE_OP(text.size(), <=, control_bytes);
  const cordma::Slice out = region_.all().part(control_bytes, text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return endpoint_.send(out);
}

cordma::task<std::string> channel::ask(std::string text) {
  cordma::recv_operation answer = expect();
  answer.start();
  cordma::send_operation question = tell(text);
  co_await question;
  const cordma::Received got = co_await answer;
  std::string received(this->text(got));
  co_return received;
}

}  // namespace perf
