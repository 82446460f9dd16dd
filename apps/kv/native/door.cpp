#include "door.hpp"

#include "carriage.hpp"
#include "execute.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <openssl/crypto.h>

namespace kv::native {
namespace {

using cordma::task;

constexpr cordma::request_options request_settings{.window = window, .inline_max = inline_bytes};

bool is_token(std::string_view given, std::string_view wanted) noexcept {
  return given.size() == wanted.size() &&
         ::CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace

door::door(cordma::Context& context, cordma::Worker& worker, keyspace& keys, door_options options,
           door_hooks hooks)
    : context_(context),
      keys_(keys),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      requests_in_(context, buffer_bytes, buffers),
      responses_(context, buffer_bytes, buffers,
                 cordma::access::local_write | cordma::access::remote_read),
      messages_(worker, message_settings),
      requests_(messages_, request_settings) {
  const auto serve_by = [this](method m, task<void> (door::*how)(cordma::Request)) {
    requests_.serve(static_cast<std::uint16_t>(m),
                    [this, how](cordma::Request r) { return (this->*how)(std::move(r)); });
  };
  serve_by(method::hello, &door::hello);
  serve_by(method::map, &door::map);
  serve_by(method::batch, &door::batch);
}

door::~door() = default;

task<void> door::serve(cordma::ConnectionRequest request) {
  cordma::connect_options options;
  options.messages = &messages_;
  cordma::Endpoint client = co_await request.accept(options);
  visitor v;
  client.set_user_data(&v);
  counters_.opened.add();
  while (client.state() != cordma::endpoint_state::closed) co_await client.state_changed();
  counters_.closed.add();
  if (v.admitted && options_.one_sided) keys_.reader_left();
}

task<void> door::hello(cordma::Request request) {
  std::span<const std::byte> said = request.data();
  const std::optional<hello_request> h = take<hello_request>(said);
  const std::optional<std::string_view> token = h ? take_text(said, h->token_bytes) : std::nullopt;
  cordma::Endpoint* const from = request.from();
  visitor* const v = from == nullptr ? nullptr : from->user_data<visitor>();
  if (v == nullptr || !token) co_return;  // without an answer: rejected
  hello_response answer{.version = protocol_version};
  if (h->version == protocol_version) {
    const bool admitted = options_.admits
                              ? options_.admits(*token)
                              : options_.token.empty() || is_token(*token, options_.token);
    answer.admitted = admitted ? 1 : 0;
    if (!admitted) counters_.refused.add();
    if (admitted && !std::exchange(v->admitted, true) && options_.one_sided) keys_.reader_came();
    if (admitted) {
      answer.one_sided = options_.one_sided ? 1 : 0;
      answer.shards = keys_.shards();
      answer.hash_seed = keys_.hash_seed();
    }
  }
  cordma::Buffer buffer = co_await responses_.get();
  writer to(buffer.bytes());
  to.put(answer);
  const cordma::Slice response = buffer.first(to.written());
  co_await request.respond(response);
}

bool door::admitted(const cordma::Request& request) const noexcept {
  const cordma::Endpoint* const from = request.from();
  const visitor* const v = from == nullptr ? nullptr : from->user_data<visitor>();
  return v != nullptr && v->admitted;
}

task<void> door::map(cordma::Request request) {
  std::span<const std::byte> said = request.data();
  const std::optional<map_request> m = take<map_request>(said);
  if (!admitted(request) || !options_.one_sided || !m || m->shard >= keys_.shards()) co_return;
  cordma::Buffer buffer = co_await responses_.get();
  const std::size_t bytes =
      write_map(*m, buffer.bytes().first(std::min<std::size_t>(buffer.size(), request.room())));
  const cordma::Slice response = buffer.first(bytes);
  co_await request.respond(response);
}

std::size_t door::write_map(const map_request& m, std::span<std::byte> into) {
  std::vector<cordma::MemoryRegion> regions;
  {
    const keyspace::hold held(keys_, std::uint64_t{1} << m.shard);
    // What a server with a native door gives its shards: see the class.
    regions = dynamic_cast<shared_memory&>(keys_.memory(m.shard)).regions();
  }
  if (into.size() < sizeof(map_response)) return 0;
  const std::size_t room = (into.size() - sizeof(map_response)) / blob_bytes;
  const std::size_t first = std::min<std::size_t>(m.first, regions.size());
  const std::size_t given = std::min(room, regions.size() - first);
  writer to(into);
  to.put(map_response{.regions = static_cast<std::uint32_t>(regions.size()),
                      .given = static_cast<std::uint32_t>(given)});
  for (std::size_t i = 0; i < given; ++i) {
    const std::vector<std::byte> blob = regions[first + i].export_blob().value();
    std::array<std::byte, blob_bytes> bytes;
    std::ranges::copy(blob, bytes.begin());
    to.put(bytes);
  }
  return to.written();
}

task<void> door::batch(cordma::Request request) {
  if (!admitted(request)) co_return;
  counters_.batches.add();
  if (request.data().size() == request.size()) {
    co_await respond(request, request.data());
    co_return;
  }
  if (request.size() > longest_batch) co_return;
  if (request.size() <= buffer_bytes) {
    cordma::Buffer said = co_await requests_in_.get();
    const cordma::Slice into = said.first(request.size());
    co_await request.read(into);
    co_await respond(request, into.bytes());
    co_return;
  }
  const cordma::MemoryRegion said =
      context_.allocate(request.size(), cordma::access::local_write).value();
  const cordma::Slice into = said.all();
  co_await request.read(into);
  co_await respond(request, into.bytes());
}

// The answer is safe to give once what it says is on disk, where that was asked for.
task<void> door::respond(cordma::Request& request, std::span<const std::byte> batch) {
  const unix_ms now = hooks_.now ? hooks_.now() : 0;
  const writes allowed =
      !hooks_.may_write || hooks_.may_write() ? writes::allowed : writes::refused;
  const std::size_t needed = request.room() > buffer_bytes ? long_answer(batch) : 0;
  cordma::MemoryRegion own;
  cordma::Buffer pooled;
  std::span<std::byte> room;
  if (needed > buffer_bytes) {
    own = context_
              .allocate(std::min<std::size_t>(needed, request.room()),
                        cordma::access::local_write | cordma::access::remote_read)
              .value();
    room = own.bytes();
  } else {
    pooled = co_await responses_.get();
    room = pooled.bytes().first(std::min<std::size_t>(pooled.size(), request.room()));
  }
  const executed done = execute(keys_, batch, room, {.now = now, .allowed = allowed});
  counters_.operations.add(done.operations);
  // What was only refused tells of nothing that could be lost.
  if (hooks_.until_safe && done.refused < done.operations) co_await hooks_.until_safe();
  const cordma::Slice response = own ? own.all().first(done.bytes) : pooled.first(done.bytes);
  co_await request.respond(response);
}

// Of a batch that only asks for values: how much they are.
std::size_t door::long_answer(std::span<const std::byte> batch) noexcept {
  std::size_t bytes = 0;
  for (std::uint32_t n = 0; n < most_operations && !batch.empty(); ++n) {
    const std::optional<operation> next = take_operation(batch);
    if (!next) break;
    bytes += sizeof(result_head);
    if (next->head.what != op::get) continue;
    const hashed_key k = keys_.key(next->key);
    const keyspace::hold held(keys_, keys_.mask_of(k));
    const found f = keys_.of(k).peek(k);
    if (f && f.is_string()) bytes += f.value.size();
  }
  return bytes;
}

}  // namespace kv::native
