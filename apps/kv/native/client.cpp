#include "client.hpp"

#include "carriage.hpp"

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kv {
namespace {

using cordma::task;
using native::buffer_bytes;
using native::buffers;
using native::longest_batch;
using native::message_settings;
using native::method;
using native::sight;
using native::status;

constexpr cordma::request_options request_settings{
    .window = native::window, .most_bytes = 2 * longest_batch, .inline_max = native::inline_bytes};
// One in this number of one-sided hits is reported to the server, which evicts keys first that it
// considers unused.
constexpr std::uint64_t hits_per_word = 16;
constexpr std::size_t most_words = 32;
constexpr std::size_t most_kept_batches = 32;
// Number of keys to prefetch at once: more than the misses that a core keeps in flight.
constexpr std::size_t looked_for_at_once = 16;
// Longer responses are requested twice: the first response has their length.
constexpr std::size_t longest_usual_answer = std::size_t{1} << 20;

cordma::error speaks_otherwise(const char* what) {
  return cordma::error(cordma::failure(cordma::errc::unsupported_version, what));
}

reply reply_of(const native::sighting& s, std::string_view value) noexcept {
  return {.outcome = status::done,
          .version = s.version,
          .expiry = s.expiry,
          .value = value,
          .value_bytes = static_cast<std::uint32_t>(value.size())};
}

// The server sends the reason with a rejection.
cordma::error not_let_in(const cordma::failure& why, std::span<const std::byte> said) {
  if (said.empty()) return cordma::error(why);
  return cordma::error(cordma::failure(
      cordma::errc::full,
      "the server says: " + std::string(reinterpret_cast<const char*>(said.data()), said.size())));
}

}  // namespace

bool batch::add(native::op what, std::string_view key, std::string_view value, const extras& more) {
  const std::size_t bytes = sizeof(native::op_head) + key.size() + value.size();
  if (operations_ == native::most_operations || key.size() > max_key_bytes ||
      value.size() > max_value_bytes || request_.size() + bytes > longest_batch) {
    return false;
  }
  const std::size_t before = request_.size();
  request_.resize(before + bytes);
  native::writer to(std::span<std::byte>(request_).subspan(before));
  to.put(native::op_head{.what = what,
                         .flags = more.flags,
                         .key_bytes = static_cast<std::uint16_t>(key.size()),
                         .value_bytes = static_cast<std::uint32_t>(value.size()),
                         .argument = more.argument,
                         .version = more.version},
         key, value);
  ++operations_;
  return true;
}

bool batch::get(std::string_view key) {
  const bool added = add(native::op::get, key);
  if (added) ++gets_;
  return added;
}

bool batch::set(std::string_view key, std::string_view value, const set_options& options) {
  return add(native::op::set, key, value,
             {.flags = options.flags, .argument = options.expiry, .version = options.version});
}

void batch::clear() noexcept {
  request_.clear();
  operations_ = 0;
  gets_ = 0;
  replies_.clear();
  longer_.clear();
}

client::client(cordma::Context& context, cordma::Worker& worker, const client_options& options)
    : worker_(worker),
      options_(options),
      requests_out_(context, buffer_bytes, buffers,
                    cordma::access::local_write | cordma::access::remote_read),
      rooms_(context, buffer_bytes, buffers,
             cordma::access::local_write | cordma::access::remote_write),
      landings_(context, native::landing_bytes, buffers),
      longer_(
          context,
          cordma::access::local_write | cordma::access::remote_read | cordma::access::remote_write,
          native::most_kept_bytes),
      messages_(worker, message_settings),
      requests_(messages_, request_settings) {}

client::~client() = default;

task<std::unique_ptr<client>> client::connect(cordma::Context* context, cordma::Worker* worker,
                                              std::string server, client_options options) {
  std::string token(options.token);
  std::unique_ptr<client> made(new client(*context, *worker, options));
  made->options_.token = {};
  cordma::connect_options how;
  how.messages = &made->messages_;
  how.transport = made->options_.transport;
  cordma::connect_operation connecting = worker->connect(std::move(server), how);
  cordma::result<cordma::Endpoint> connected = co_await connecting.result();
  if (!connected) throw not_let_in(connected.why(), connecting.rejection());
  made->server_ = std::move(connected).value();
  co_await made->greet(std::move(token));
  co_return made;
}

task<void> client::ask(method m, std::span<const std::byte> what, std::size_t room_bytes,
                       std::vector<std::byte>* answer) {
  cordma::Buffer said;
  cordma::Buffer room;
  cordma::MemoryRegion long_said;
  cordma::MemoryRegion long_room;
  if (what.size() > buffer_bytes) {
    long_said = longer_.get(what.size());
  } else {
    said = co_await requests_out_.get();
  }
  if (room_bytes > buffer_bytes) {
    long_room = longer_.get(room_bytes);
  } else {
    room = co_await rooms_.get();
  }
  const cordma::Slice request = (long_said ? long_said.all() : said.all()).first(what.size());
  const cordma::Slice landing = long_room ? long_room.all() : room.all();
  std::ranges::copy(what, request.data());
  const cordma::call_options how{.timeout = options_.timeout};
  const cordma::time_point asked_at = worker_.loop().now();
  const auto number = static_cast<std::uint16_t>(m);
  const cordma::Response got = co_await requests_.call(server_, number, request, landing, how);
  for (native::remote_shard& s : shards_) s.lived_at(asked_at);
  const std::span<const std::byte> bytes = landing.bytes().first(got.bytes);
  answer->assign(bytes.begin(), bytes.end());
  if (long_said) longer_.put_back(std::move(long_said));
  if (long_room) longer_.put_back(std::move(long_room));
}

task<void> client::greet(std::string token) {
  if (token.size() > native::most_token_bytes) {
    throw cordma::error(cordma::failure(cordma::errc::invalid_value, "the token is too long"));
  }
  std::array<std::byte, sizeof(native::hello_request) + native::most_token_bytes> said;
  native::writer to(said);
  to.put(native::hello_request{.version = native::protocol_version,
                               .token_bytes = static_cast<std::uint16_t>(token.size())},
         token);
  const std::span<const std::byte> request = std::span(said).first(to.written());
  std::vector<std::byte> answer;
  co_await ask(method::hello, request, 0, &answer);
  std::span<const std::byte> got = answer;
  const std::optional<native::hello_response> h = native::take<native::hello_response>(got);
  if (!h || h->version != native::protocol_version) {
    throw speaks_otherwise("the server speaks another version of the protocol");
  }
  if (h->admitted == 0) {
    throw cordma::error(
        cordma::failure(cordma::errc::not_permitted, "the server wants another token"));
  }
  shards_count_ = h->shards;
  seed_ = h->hash_seed;
  if (h->one_sided == 0 || !reads_by_itself()) co_return;
  for (std::uint32_t i = 0; i < h->shards; ++i) {
    shards_.emplace_back(server_, worker_.loop());
    co_await learn(i);
    cordma::Buffer landing = co_await landings_.get();
    const cordma::Slice into = landing.all();
    co_await shards_[i].refresh(into);
  }
}

bool client::reads_by_itself() const noexcept {
  if (options_.gets != way_of_gets::what_is_faster) return options_.gets == way_of_gets::one_sided;
  return server_.abilities().target_idle();
}

// One-sided gets take two or three reads per key, while one request covers all keys. They are
// faster only if a read is a copy.
bool client::reads_many() const noexcept {
  if (shards_.empty()) return false;
  return options_.gets == way_of_gets::one_sided || server_.abilities().remote_access_is_copy;
}

// Imports the regions added since the last call.
task<void> client::learn(std::uint32_t shard) {
  std::vector<std::byte> answer;
  for (;;) {
    const std::size_t known = shards_[shard].regions();
    const native::map_request from{.shard = shard, .first = static_cast<std::uint32_t>(known)};
    const std::span<const std::byte> request = std::as_bytes(std::span(&from, 1));
    co_await ask(method::map, request, 0, &answer);
    std::span<const std::byte> got = answer;
    const std::optional<native::map_response> m = native::take_map(got);
    if (!m) throw speaks_otherwise("the server's map is none");
    // Another task may have imported them meanwhile.
    for (std::size_t i = 0; i < m->given; ++i) {
      if (known + i < shards_[shard].regions()) continue;
      const auto blob = got.subspan(i * native::blob_bytes, native::blob_bytes);
      shards_[shard].add(cordma::RemoteMemory::import(blob).value());
    }
    if (m->given == 0 || known + m->given >= m->regions) co_return;
  }
}

bool client::note(const native::sighting& s, std::string_view key) {
  switch (s.what) {
    case sight::seen: ++counters_.one_sided; break;
    case sight::absent: ++counters_.absent; break;
    case sight::torn: ++counters_.torn; break;
    case sight::expiring: ++counters_.expiring; break;
    case sight::longer: ++counters_.longer; break;
    case sight::unmapped: ++counters_.unmapped; break;
    case sight::late: ++counters_.late; break;
    case sight::unsafe: ++counters_.unsafe; break;
    case sight::silent: ++counters_.silent; break;
  }
  const bool is_seen = s.what == sight::seen;
  if (is_seen && ++hits_ % hits_per_word == 0 && uses_.size() < most_words) uses_.touch(key);
  return is_seen;
}

bool client::looks_now(std::span<const hashed_key> keys) {
  cordma::reactor& loop = worker_.loop();
  if (server_.state() != cordma::endpoint_state::connected) return false;
  if (!loop.may_continue_inline()) return false;
  const cordma::time_point now = loop.now();
  looks_.clear();
  for (const hashed_key& k : keys) looks_.emplace_back(shards_[shard(k)], k, now);
  constexpr std::size_t buckets_each = native::landing_stride / sizeof(bucket);
  looked_at_.resize(std::max(looked_at_.size(), keys.size() * buckets_each));
  return native::find_now(looks_, std::as_writable_bytes(std::span(looked_at_)).data());
}

// Looks for the key by awaited one-sided reads. Returns true if it was found.
task<bool> client::seen(hashed_key key, std::string* into, reply* found) {
  cordma::Buffer landing = co_await landings_.get();
  const cordma::Slice at = landing.all();
  const native::sighting s = co_await shards_[shard(key)].find_key(key, at);
  const bool is_seen = take(s, key.text, into, found);
  if (s.what == sight::unmapped) co_await learn(shard(key));
  co_return is_seen;
}

bool client::take(const native::sighting& s, std::string_view key, std::string* into,
                  reply* found) {
  if (!note(s, key)) return false;
  into->assign(s.value);
  *found = reply_of(s, *into);
  return true;
}

task<reply> client::get(std::string_view key, std::string* into) {
  reply found;
  if (!shards_.empty()) {
    const hashed_key hashed = hash_key(key, seed_);
    bool is_seen = false;
    if (looks_now({&hashed, 1})) {
      const native::sighting& s = looks_.front().found();
      is_seen = take(s, key, into, &found);
      if (s.what == sight::unmapped) co_await learn(shard(hashed));
    } else {
      is_seen = co_await seen(hashed, into, &found);
    }
    if (is_seen) co_return found;
  }
  batch one = take_batch();
  if (!one.get(key)) co_return reply{.outcome = status::too_long};
  co_await run(&one);
  found = one.replies().front();
  into->assign(found.value);
  found.value = *into;
  put_back(std::move(one));
  co_return found;
}

task<void> client::read(batch* of) {
  if (!reads_many() || of->gets_ != of->operations_) {
    co_await run(of);
    co_return;
  }
  of->begin_reading(seed_);
  std::optional<std::uint32_t> unknown;
  for (std::size_t first = 0; first < of->operations_; first += looked_for_at_once) {
    const std::size_t many = std::min(of->operations_ - first, looked_for_at_once);
    const std::span<const hashed_key> keys = std::span(of->keys_).subspan(first, many);
    if (!looks_now(keys)) {
      co_await read_awaited(of, first, first + many);
      continue;
    }
    for (std::size_t i = 0; i < many; ++i) {
      const native::sighting& s = looks_[i].found();
      const bool is_seen = note(s, keys[i].text);
      if (is_seen) of->has_read(first + i, reply_of(s, s.value), s.value);
      if (s.what == sight::unmapped) unknown = shard(keys[i]);
    }
  }
  if (unknown) co_await learn(*unknown);
  co_await ask_for_rest(of);
  of->end_reading();
}

task<void> client::read_awaited(batch* of, std::size_t first, std::size_t last) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  for (std::size_t i = first; i < last; ++i) all.spawn(read_one(of, i));
  co_await all.join();
}

task<void> client::read_one(batch* of, std::size_t i) {
  std::string value;
  reply found;
  const hashed_key key = of->keys_[i];
  const bool is_seen = co_await seen(key, &value, &found);
  if (is_seen) of->has_read(i, found, value);
}

task<void> client::ask_for_rest(batch* of) {
  batch rest;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < of->operations_; ++i) {
    if (of->value_at_[i] != batch::not_read) continue;
    rest.get(of->keys_[i].text);
    places.push_back(i);
  }
  if (places.empty()) co_return;
  co_await run(&rest);
  for (std::size_t i = 0; i < places.size(); ++i) of->replies_[places[i]] = rest.replies_[i];
  of->answer_ = std::move(rest.answer_);
  of->longer_ = std::move(rest.longer_);
}

void batch::begin_reading(std::uint64_t seed) {
  keys_.clear();
  values_.clear();
  value_at_.assign(operations_, not_read);
  replies_.assign(operations_, {});
  std::span<const std::byte> left = request_;
  while (keys_.size() < operations_) {
    keys_.push_back(hash_key(native::take_operation(left)->key, seed));
  }
}

void batch::has_read(std::size_t i, const reply& r, std::string_view value) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(value));
  value_at_[i] = values_.size();
  values_.insert(values_.end(), bytes.begin(), bytes.end());
  replies_[i] = r;
}

// Sets the views, now that the values no longer move.
void batch::end_reading() noexcept {
  for (std::size_t i = 0; i < operations_; ++i) {
    if (value_at_[i] == not_read) continue;
    replies_[i].value = {reinterpret_cast<const char*>(values_.data()) + value_at_[i],
                         replies_[i].value_bytes};
  }
}

batch client::take_batch() {
  if (batches_.empty()) return {};
  batch b = std::move(batches_.back());
  batches_.pop_back();
  b.clear();
  return b;
}

void client::put_back(batch b) {
  if (batches_.size() < most_kept_batches && b.answer_.capacity() <= buffer_bytes) {
    batches_.push_back(std::move(b));
  }
}

task<reply> client::set(std::string_view key, std::string_view value, set_options options) {
  batch one = take_batch();
  if (!one.set(key, value, options)) co_return reply{.outcome = status::too_long};
  co_await run(&one);
  const reply r = one.replies().front();
  put_back(std::move(one));
  co_return r;
}

task<reply> client::erase(std::string_view key) {
  batch one = take_batch();
  if (!one.erase(key)) co_return reply{.outcome = status::too_long};
  co_await run(&one);
  const reply r = one.replies().front();
  put_back(std::move(one));
  co_return r;
}

// Sends the batch and stores the response in the batch's own memory.
task<void> client::exchange(batch* of, std::size_t room_bytes) {
  ++counters_.batches;
  counters_.asked += of->operations_;
  return ask(method::batch, of->request_, room_bytes, &of->answer_);
}

// For batches with gets: follows the longest recent response, and decays slowly.
void client::note_answer(std::size_t bytes) noexcept {
  const std::size_t at_most = std::min(std::bit_ceil(bytes), longest_usual_answer);
  usual_answer_ = std::max(at_most, usual_answer_ - usual_answer_ / 64);
}

task<void> client::run(batch* of) {
  of->replies_.clear();
  of->longer_.clear();
  if (of->empty()) co_return;
  if (!uses_.empty()) {
    batch words = std::exchange(uses_, batch());
    co_await exchange(&words, 0);
  }
  const std::size_t room = of->gets_ != 0 ? usual_answer_ : 0;
  co_await exchange(of, room);
  of->read_replies(of->answer_);
  const std::size_t left_out = of->room_for_longer();
  if (of->gets_ != 0) note_answer(of->answer_.size() + left_out);
  if (left_out != 0) co_await ask_again(of, left_out);
}

void batch::read_replies(std::span<const std::byte> answer) {
  while (replies_.size() < operations_) {
    const std::optional<native::outcome> o = native::take_outcome(answer);
    if (!o) throw speaks_otherwise("the server's answer is none");
    replies_.push_back({.outcome = o->head.outcome,
                        .version = o->head.version,
                        .expiry = o->head.expiry,
                        .value = o->value,
                        .value_bytes = o->head.value_bytes});
    if (o->head.outcome == status::malformed) {  // the server stopped there
      replies_.resize(operations_, replies_.back());
    }
  }
}

// Returns the bytes of the values that did not fit into the response.
std::size_t batch::room_for_longer() const noexcept {
  std::size_t bytes = 0;
  for (const reply& r : replies_) {
    if (r.outcome == status::too_long && r.value_bytes <= max_value_bytes) {
      bytes += sizeof(native::result_head) + r.value_bytes;
    }
  }
  return bytes;
}

task<void> client::ask_again(batch* of, std::size_t room_bytes) {
  batch again;
  std::vector<std::size_t> places;
  std::span<const std::byte> left = of->request_;
  for (std::size_t i = 0; i < of->operations_; ++i) {
    const std::optional<native::operation> what = native::take_operation(left);
    if (of->replies_[i].outcome != status::too_long || what->head.what != native::op::get) continue;
    again.get(what->key);
    places.push_back(i);
  }
  if (places.empty()) co_return;
  co_await exchange(&again, std::max(room_bytes, buffer_bytes + 1));
  again.read_replies(again.answer_);
  // A value that has grown meanwhile stays too_long: further requests could go on for ever.
  for (std::size_t i = 0; i < places.size(); ++i) of->replies_[places[i]] = again.replies_[i];
  of->longer_ = std::move(again.answer_);
}

task<std::string> client::info(std::string_view section) {
  if (section.size() > native::most_section_bytes) {
    throw cordma::error(cordma::failure(cordma::errc::invalid_value, "no section is called so"));
  }
  std::array<std::byte, sizeof(native::info_request) + native::most_section_bytes> said;
  native::writer to(said);
  to.put(native::info_request{.section_bytes = static_cast<std::uint16_t>(section.size())},
         section);
  const std::span<const std::byte> request = std::span(said).first(to.written());
  std::vector<std::byte> answer;
  for (std::size_t room = 0;;) {
    co_await ask(method::info, request, room, &answer);
    std::span<const std::byte> got = answer;
    const std::optional<native::info_response> head = native::take<native::info_response>(got);
    if (!head) throw speaks_otherwise("the server's information is none");
    if (got.size() >= head->bytes) {
      co_return std::string(reinterpret_cast<const char*>(got.data()), head->bytes);
    }
    if (room >= sizeof *head + head->bytes) throw speaks_otherwise("it is cut off");
    room = 2 * (sizeof *head + head->bytes);  // it may grow meanwhile
  }
}

task<std::uint64_t> client::scan(std::uint64_t cursor, scan_options options,
                                 std::vector<scanned_key>* into) {
  if (options.pattern.size() > native::most_pattern_bytes) {
    throw cordma::error(cordma::failure(cordma::errc::invalid_value, "the pattern is too long"));
  }
  native::scan_request head{.cursor = cursor,
                            .count = options.count,
                            .pattern_bytes = static_cast<std::uint16_t>(options.pattern.size())};
  std::vector<std::byte> said(sizeof head + options.pattern.size());
  std::vector<std::byte> answer;
  for (std::size_t room = 0;;) {
    native::writer(said).put(head, options.pattern);
    co_await ask(method::scan, said, room, &answer);
    std::span<const std::byte> got = answer;
    const std::optional<native::scan_response> page = native::take<native::scan_response>(got);
    if (!page || (page->needed != 0 && page->needed <= room)) {
      throw speaks_otherwise("the server's keys are none");
    }
    for (std::uint32_t i = 0; i < page->keys; ++i) {
      const std::optional<native::found_key> k = native::take_key(got);
      if (!k) throw speaks_otherwise("a key of the server's is none");
      into->push_back({.key = std::string(k->key), .what = k->what});
    }
    if (page->needed == 0) co_return page->cursor;
    // No key fit: continues from its cursor, with more room.
    head.cursor = page->cursor;
    room = page->needed;
  }
}

task<void> client::close() { co_await server_.close(); }

const client_counters& client::counters() const noexcept {
  counters_.torn_reads = counters_.reads = 0;
  counters_.registrations = longer_.registrations();
  for (const native::remote_shard& s : shards_) {
    counters_.torn_reads += s.counters().torn;
    counters_.reads += s.counters().reads;
  }
  return counters_;
}

std::string_view client::transport() const noexcept { return name(server_.transport()); }
const std::string& client::transport_reason() const noexcept { return server_.transport_reason(); }

bool client::fell_back() const {
  const std::string here = server_.local_address();
  const std::string there = server_.peer_address();
  return !server_.abilities().target_idle() &&
         transport_reason().find(": after ") != std::string::npos &&
         here.substr(0, here.rfind(':')) == there.substr(0, there.rfind(':'));
}

}  // namespace kv
