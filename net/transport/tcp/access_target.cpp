#include <atomic>
#include <cordma/net/transport/tcp/access_target.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {

refusal access_target::read(const frame& f, std::uint16_t number) noexcept {
  if (!allows(f, access::remote_read)) {
    return {wc_status::rem_access_err, "read memory it has no right to read"};
  }
  answers_.push(
      {frame_type::read_response, wc_status::success, number, f.length, f.remote_addr, f.rkey, 0});
  return {};
}

refusal access_target::atomic(const frame& f, std::uint16_t number) noexcept {
  if (f.remote_addr % word_bytes != 0) {
    return {wc_status::rem_inv_req_err, "asked for an atomic on a misaligned address"};
  }
  const region_table::pin held = pin(f.rkey, f.remote_addr, word_bytes, access::remote_atomic);
  if (!held || !has(rights_, access::remote_atomic)) {
    return {wc_status::rem_access_err, "asked for an atomic it has no right to"};
  }
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(held.data()));
  std::uint64_t old = f.operand;
  if (f.type == frame_type::fetch_add) {
    old = word.fetch_add(f.operand);
  } else {
    word.compare_exchange_strong(old, f.swap);
  }
  answers_.push({frame_type::atomic_response, wc_status::success, number, 0, 0, 0, old});
  return {};
}

bool access_target::begin_read(std::uint32_t number, region_table::pin& held) noexcept {
  answer& a = answers_[number];
  held = pin(a.rkey, a.addr, a.length, access::remote_read);
  if (!held) {
    a.type = frame_type::nak;
    a.status = wc_status::rem_access_err;
    a.length = 0;
    answers_.end_with(number);
    return false;
  }
  // A word is accessed in a single access, in however many pieces it is transferred.
  if (is_word(held.data(), a.length)) {
    a.value = load_word(held.data());
  } else if (a.length == word_bytes) {
    std::memcpy(&a.value, held.data(), word_bytes);
  }
  return true;
}

bool access_target::store(const frame& f, std::uint64_t word) noexcept {
  const region_table::pin held = pin(f.rkey, f.remote_addr, word_bytes, access::remote_write);
  if (!held) return false;
  if (is_word(held.data(), word_bytes)) {
    store_word(held.data(), word);
  } else {
    std::memcpy(held.data(), &word, word_bytes);
  }
  return true;
}

}  // namespace cordma::transport::tcp
