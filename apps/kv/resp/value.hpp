// A value of RESP, the protocol of Redis, in version 2 or 3.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv {

struct resp_value {
  enum class kind : std::uint8_t {
    nil,
    status,  // "+OK": a short text of the server
    error,
    integer,
    bulk,  // bytes
    text,  // readable lines
    number,
    boolean,
    array,
    map,  // `items` alternates keys and values
    set,
    push,  // unsolicited
  };

  kind what = kind::nil;
  std::int64_t integer = 0;  // of a boolean: 0 or 1
  double number = 0;
  std::string text = {};
  std::vector<resp_value> items = {};

  [[nodiscard]] bool is_nil() const noexcept { return what == kind::nil; }
  [[nodiscard]] bool is_error() const noexcept { return what == kind::error; }
  [[nodiscard]] bool has_items() const noexcept { return what >= kind::array; }

  [[nodiscard]] static resp_value of_status(std::string text) {
    return {.what = kind::status, .text = std::move(text)};
  }
  [[nodiscard]] static resp_value of_error(std::string text) {
    return {.what = kind::error, .text = std::move(text)};
  }
  [[nodiscard]] static resp_value of_bulk(std::string text) {
    return {.what = kind::bulk, .text = std::move(text)};
  }
  [[nodiscard]] static resp_value of_text(std::string text) {
    return {.what = kind::text, .text = std::move(text)};
  }
  [[nodiscard]] static resp_value of_integer(std::int64_t value) {
    return {.what = kind::integer, .integer = value};
  }
};

}  // namespace kv
