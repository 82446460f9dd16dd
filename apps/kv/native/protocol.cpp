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
  // Of what is too long only the length is there.
  const std::size_t bytes = head->outcome == status::too_long ? 0 : head->value_bytes;
  const std::optional<std::string_view> value = take_text(from, bytes);
  if (!value) return std::nullopt;
  return outcome{.head = *head, .value = *value};
}

}  // namespace kv::native
