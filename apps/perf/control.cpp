#include "control.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace perf {
namespace {

using cordma::errc;
using nlohmann::json;

constexpr std::string_view greeting_mark = "prf2";
constexpr double longest_expected_s = 1e6;

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

// Parses the text and passes it to `read`. Any exception of either means that the text is not the
// expected one.
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

// Negative numbers exceed every limit.
template <class T>
T at_most(const json& j, const char* key, T limit) {
  const auto value = j.at(key).get<std::uint64_t>();
  if (value <= limit) return static_cast<T>(value);
  cordma::throw_error({errc::invalid_value, std::string("the peer's ") + key + " of " +
                                                std::to_string(value) + " is above the limit of " +
                                                std::to_string(limit)});
}

plan plan_of(const json& j) {
  plan p;
  const auto name = j.at("test").get<std::string>();
  p.test = find_test(name);
  if (p.test == nullptr) {
    cordma::throw_error({errc::not_supported, "the peer asks for a test \"" + name + "\""});
  }
  p.size = at_most<std::uint64_t>(j, "size", largest_size);
  p.flows = at_most<std::uint32_t>(j, "flows", most_flows);
  p.outstanding = at_most<std::uint32_t>(j, "outstanding", most_outstanding);
  p.messages = at_most<std::uint32_t>(j, "messages", most_outstanding);
  p.inline_bytes = at_most<std::uint32_t>(j, "inline", as_usual);
  p.depth = at_most<std::uint32_t>(j, "depth", as_usual);
  p.arrives = j.at("open").get<bool>() ? arrival::constant : arrival::closed;
  p.stall_ms = at_most<std::uint64_t>(j, "stall_ms", longest_stall_ms);
  p.check = j.at("check").get<bool>();
  p.flip = j.at("flip").get<bool>();
  if (p.size == 0 || p.outstanding == 0 || p.flows == 0 || p.messages == 0 ||
      p.messages > most_outstanding / p.outstanding) {
    cordma::throw_error({errc::invalid_value, "the peer's size, flows or window are out of range"});
  }
  return p;
}

constexpr std::string_view order_names[] = {"run", "stop", "bye"};

}  // namespace

std::array<std::byte, greeting_bytes> encode(const greeting& g) noexcept {
  std::array<std::byte, greeting_bytes> bytes{};
  std::memcpy(bytes.data(), greeting_mark.data(), greeting_mark.size());
  std::size_t at = greeting_mark.size();
  for (const std::uint32_t value : {g.depth, g.inline_bytes, g.flow}) {
    for (unsigned shift = 0; shift < 32; shift += 8) bytes[at++] = std::byte(value >> shift & 255);
  }
  return bytes;
}

greeting decode_greeting(std::span<const std::byte> private_data) noexcept {
  if (private_data.size() < greeting_bytes ||
      std::memcmp(private_data.data(), greeting_mark.data(), greeting_mark.size()) != 0) {
    return {};
  }
  std::size_t at = greeting_mark.size();
  std::array<std::uint32_t, 3> values{};
  for (std::uint32_t& value : values) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      value |= static_cast<std::uint32_t>(private_data[at++]) << shift;
    }
  }
  return {values[0], values[1], values[2]};
}

std::string encode(const opening& m) {
  const plan& p = m.what;
  return json{{"version", control_version},
              {"test", p.facts().name},
              {"size", p.size},
              {"flows", p.flows},
              {"outstanding", p.outstanding},
              {"messages", p.messages},
              {"inline", p.inline_bytes},
              {"depth", p.depth},
              {"open", p.open_loop()},
              {"stall_ms", p.stall_ms},
              {"check", p.check},
              {"flip", p.flip},
              {"memory", to_hex(m.blob)}}
      .dump();
}

std::string encode(const welcome& m) {
  return json{
      {"version", control_version},  {"memory", to_hex(m.blob)}, {"wait", m.wait}, {"port", m.port},
      {"counts", m.counts_syscalls}, {"complaint", m.complaint}}
      .dump();
}

std::string encode(const order& m) {
  return json{{"do", order_names[static_cast<std::size_t>(m.what)]},
              {"count", m.count},
              {"count_syscalls", m.count_syscalls},
              {"stalls", m.stalls},
              {"expected_s", m.expected_s}}
      .dump();
}

std::string encode(const closing& m) {
  json j{{"wrong", m.wrong}, {"wake_cost_ns", m.wake_cost_ns}, {"syscalls", m.syscalls}};
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
    welcome m;
    m.complaint = j.at("complaint").get<std::string>();
    if (!m.complaint.empty()) return m;  // possibly about the version
    require_version(j);
    m.blob = from_hex(j.at("memory").get<std::string>());
    m.wait = j.at("wait").get<std::string>();
    m.port = j.at("port").get<std::uint16_t>();
    m.counts_syscalls = j.at("counts").get<bool>();
    return m;
  });
}

order decode_order(std::string_view text) {
  return decode(text, [](const json& j) {
    const auto name = j.at("do").get<std::string>();
    for (std::size_t i = 0; i < std::size(order_names); ++i) {
      if (name == order_names[i]) {
        return order{static_cast<order::kind>(i), j.at("count").get<std::uint64_t>(),
                     j.at("count_syscalls").get<bool>(), j.at("stalls").get<bool>(),
                     std::clamp(j.at("expected_s").get<double>(), 0.0, longest_expected_s)};
      }
    }
    cordma::throw_error({errc::invalid_value, "the peer orders \"" + name + "\""});
  });
}

closing decode_closing(std::string_view text) {
  return decode(text, [](const json& j) {
    closing m;
    m.wrong = j.at("wrong").get<std::uint64_t>();
    m.wake_cost_ns = j.at("wake_cost_ns").get<std::int64_t>();
    m.syscalls = j.at("syscalls").get<std::int64_t>();
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
