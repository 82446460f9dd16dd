#include "protocol.hpp"

namespace kv::native {

std::string_view name(status s) noexcept {
  switch (s) {
    case status::done: return "done";
    case status::absent: return "absent";
    case status::present: return "present";
    case status::other_version: return "other version";
    case status::wrong_type: return "wrong type";
    case status::not_a_number: return "not a number";
    case status::too_long: return "too long";
    case status::out_of_memory: return "out of memory";
    case status::refused: return "refused";
    case status::malformed: return "malformed";
    case status::no_such_time: return "no such time";
  }
  return "unknown";
}

std::optional<std::string_view> take_text(std::span<const std::byte>& from,
                                          std::size_t bytes) noexcept {
  if (from.size() < bytes) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(from.data()), bytes);
  from = from.subspan(bytes);
  return text;
}

std::optional<hello> take_hello(std::span<const std::byte> from) noexcept {
  const std::optional<hello_request> head = take<hello_request>(from);
  if (!head || head->token_bytes > most_token_bytes) return std::nullopt;
  const std::optional<std::string_view> token = take_text(from, head->token_bytes);
  if (!token) return std::nullopt;
  return hello{.head = *head, .token = *token};
}

std::optional<info_question> take_info(std::span<const std::byte> from) noexcept {
  const std::optional<info_request> head = take<info_request>(from);
  if (!head || head->section_bytes > most_section_bytes) return std::nullopt;
  const std::optional<std::string_view> section = take_text(from, head->section_bytes);
  if (!section) return std::nullopt;
  return info_question{.section = *section};
}

std::optional<scan_question> take_scan(std::span<const std::byte> from) noexcept {
  const std::optional<scan_request> head = take<scan_request>(from);
  if (!head || head->pattern_bytes > most_pattern_bytes) return std::nullopt;
  const std::optional<std::string_view> pattern = take_text(from, head->pattern_bytes);
  if (!pattern) return std::nullopt;
  return scan_question{.cursor = head->cursor, .count = head->count, .pattern = *pattern};
}

std::optional<map_response> take_map(std::span<const std::byte>& from) noexcept {
  const std::optional<map_response> head = take<map_response>(from);
  if (!head || from.size() / blob_bytes < head->given) return std::nullopt;
  return head;
}

std::optional<found_key> take_key(std::span<const std::byte>& from) noexcept {
  const std::optional<scan_key> head = take<scan_key>(from);
  if (!head || head->what < kind::string || head->what > kind::hash) return std::nullopt;
  const std::optional<std::string_view> key = take_text(from, head->key_bytes);
  if (!key) return std::nullopt;
  return found_key{.key = *key, .what = head->what};
}

std::optional<operation> take_operation(std::span<const std::byte>& from) noexcept {
  const std::optional<op_head> head = take<op_head>(from);
  if (!head || head->what < op::get || head->what > op::add) return std::nullopt;
  const std::optional<std::string_view> key = take_text(from, head->key_bytes);
  if (!key) return std::nullopt;
  const std::optional<std::string_view> value = take_text(from, head->value_bytes);
  if (!value) return std::nullopt;
  return operation{.head = *head, .key = *key, .value = *value};
}

std::optional<outcome> take_outcome(std::span<const std::byte>& from) noexcept {
  const std::optional<result_head> head = take<result_head>(from);
  if (!head || head->outcome > status::no_such_time) return std::nullopt;
  // A value that is too long is absent; only its length is sent.
  const std::size_t bytes = head->outcome == status::too_long ? 0 : head->value_bytes;
  const std::optional<std::string_view> value = take_text(from, bytes);
  if (!value) return std::nullopt;
  return outcome{.head = *head, .value = *value};
}

}  // namespace kv::native
