#include "print.hpp"

#include "../../support/printable.hpp"
#include "../resp/words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace kv::cli {
namespace {

using kind = resp_value::kind;
using nlohmann::ordered_json;

std::string number_text(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

void append_pretty(std::string& to, const resp_value& v, std::size_t indent);

void append_lines(std::string& to, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    to += support::printable(line) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void append_items(std::string& to, const resp_value& v, std::size_t indent) {
  if (v.items.empty()) {
    to += "(empty)\n";
    return;
  }
  const bool pairs = v.what == kind::map;
  const std::size_t step = pairs ? 2 : 1;
  const std::size_t count = v.items.size() / step;
  const int width = static_cast<int>(std::to_string(count).size());
  for (std::size_t i = 0; i < count; ++i) {
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%*zu%s ", width, i + 1, pairs ? "#" : ")");
    if (i != 0) to.append(indent, ' ');
    to += number.data();
    const std::size_t within = indent + static_cast<std::size_t>(width) + 2;
    append_pretty(to, v.items[i * step], within);
    if (!pairs) continue;
    if (to.ends_with('\n')) to.pop_back();
    to += " => ";
    append_pretty(to, v.items[i * step + 1], within + 2);
  }
}

void append_pretty(std::string& to, const resp_value& v, std::size_t indent) {
  switch (v.what) {
    case kind::nil: to += "(nil)"; break;
    case kind::status: to += support::printable(v.text); break;
    case kind::error: to += "(error) " + support::printable(v.text); break;
    case kind::integer: to += "(integer) " + std::to_string(v.integer); break;
    case kind::number: to += "(double) " + number_text(v.number); break;
    case kind::boolean: to += v.integer != 0 ? "(true)" : "(false)"; break;
    case kind::bulk: append_quoted(to, v.text); break;
    case kind::text: append_lines(to, v.text); return;
    case kind::array:
    case kind::map:
    case kind::set:
    case kind::push: append_items(to, v, indent); return;
  }
  to += '\n';
}

std::string base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, text.size() - i);
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < n ? static_cast<unsigned char>(text[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= n ? digits[bits >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return out;
}

// Uses nlohmann's check, which runs when it serializes and reports a fault as an exception.
bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(ordered_json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

ordered_json to_json(const resp_value& v);

ordered_json text_json(const std::string& text) {
  if (is_utf8(text)) return text;
  return {{"base64", base64(text)}};
}

ordered_json map_json(const resp_value& v) {
  ordered_json j = ordered_json::object();
  for (std::size_t i = 0; i + 1 < v.items.size(); i += 2) {
    const resp_value& key = v.items[i];
    const bool plain = key.what == kind::bulk || key.what == kind::status;
    const std::string name = plain && is_utf8(key.text) ? key.text : to_json(key).dump();
    j[name] = to_json(v.items[i + 1]);
  }
  return j;
}

ordered_json to_json(const resp_value& v) {
  switch (v.what) {
    case kind::nil: return nullptr;
    case kind::error: return {{"error", text_json(v.text)}};
    case kind::integer: return v.integer;
    case kind::number:
      return std::isfinite(v.number) ? ordered_json(v.number) : ordered_json(number_text(v.number));
    case kind::boolean: return v.integer != 0;
    case kind::status:
    case kind::text:
    case kind::bulk: return text_json(v.text);
    case kind::map: return map_json(v);
    case kind::array:
    case kind::set:
    case kind::push: break;
  }
  ordered_json j = ordered_json::array();
  for (const resp_value& i : v.items) j.push_back(to_json(i));
  return j;
}

}  // namespace

std::string to_pretty(const resp_value& v) {
  std::string text;
  append_pretty(text, v, 0);
  return text;
}

std::string to_raw(const resp_value& v) {
  switch (v.what) {
    case kind::nil: return "\n";
    case kind::integer: return std::to_string(v.integer) + "\n";
    case kind::number: return number_text(v.number) + "\n";
    case kind::boolean: return v.integer != 0 ? "true\n" : "false\n";
    case kind::status:
    case kind::error:
    case kind::text:
    case kind::bulk: return v.text + "\n";
    case kind::array:
    case kind::map:
    case kind::set:
    case kind::push: break;
  }
  std::string all;
  for (const resp_value& i : v.items) all += to_raw(i);
  return all;
}

std::string to_json_line(const resp_value& v) { return to_json(v).dump() + "\n"; }

}  // namespace kv::cli
