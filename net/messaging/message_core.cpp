#include <cordma/net/messaging/message_core.hpp>

#include <cordma/net/datapath/option_bounds.hpp>
#include <cordma/net/protocol/request.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {
namespace {

// Stores a hello of requests until Requests are created, because the peer waits for an answer to
// it. There is nothing else to store: without that answer the peer may not send requests.
bool keep_greeting(peer_core& from, const ActiveMessage& message) noexcept {
  const result<protocol::request_header> h = protocol::decode_request(message.header());
  const bool is_greeting = h && h->kind == protocol::request_kind::hello && message.size() == 0;
  return is_greeting && from.keep_greeting(*h);
}

}  // namespace

message_core::message_core(Worker& worker, const message_options& o)
    : options_(o), home_(&core_of(worker).home()), anchor_(core_of(worker).anchor()) {
  if (o.eager_bytes != 0) {
    require_within("message_options::eager_bytes", o.eager_bytes, protocol::least_eager_bytes,
                   protocol::most_eager_bytes);
  }
  require_within("message_options::credits", o.credits, 1, protocol::most_credits);
  require_within("message_options::rails", o.rails, 0, protocol::most_rails);
  require_positive("message_options::hello_timeout", o.hello_timeout);
}

message_core::~message_core() {
  if (anchor_->worker != nullptr) anchor_->worker->enter_to_destroy();
  end_receives({errc::shutdown, "its Messages are gone"});
  unwired_.for_each([](early_messages& e) { e.on_messages_gone(); });
}

void message_core::on_worker_gone() noexcept {
  end_receives({errc::shutdown, "the Worker was destroyed"});
}

void message_core::end_receives(const failure& why) noexcept {
  matcher_.for_each_receive([&](message_receive& r) { r.end_waiting(why); });
}

void message_core::end_receives_from(const endpoint_core& sender, const failure& why) noexcept {
  matcher_.for_each_receive([&](message_receive& r) {
    if (r.place().pattern.from == &sender) r.end_waiting(why);
  });
}

result<endpoint_options> message_core::options_on(adapter_poller& via, endpoint_options asked) {
  if (anchor_->worker != &via.owner()) {
    return failure{errc::invalid_value, "the Messages belong to another Worker"};
  }
  if (std::min(asked.send_depth, via.domain().caps().max_send_depth) < 2) {
    return failure{
        errc::invalid_value,
        "endpoint_options::send_depth is 1: an Endpoint of Messages needs at least 2, of "
        "which half are for messages"};
  }
  if (!via.domain().caps().ordered_path) {
    return failure::of(
        errc::not_supported,
        {transport::name(via.domain().caps().transport),
         " does not keep the order of what one Endpoint sends, which Messages need"});
  }
  const result<transport::receive_queue*> queue = queue_on(via);
  if (!queue) return queue.why();
  asked.shared = *queue;
  asked.rnr_retry = 7;  // a message without a posted receive is delayed, not lost
  return asked;
}

result<transport::receive_queue*> message_core::queue_on(adapter_poller& via) {
  const auto here =
      std::ranges::find_if(ports_, [&via](const auto& p) { return &p->via() == &via; });
  if (here != ports_.end()) return (*here)->queue();
  if (!home_->on_owner_thread())
    return home_->wrong_thread("messages may only be used on the thread of their Worker");
  auto port = std::make_unique<frame_port>(*this, *anchor_->worker, via);
  ports_.reserve(ports_.size() + 1);
  const result<void> made = port->make();
  if (!made) return made.why();
  ports_.push_back(std::move(port));
  return ports_.back()->queue();
}

void message_core::receive_kept(message_receive& op) noexcept {
  if (protocol::tag_message* const here = matcher_.post(op)) return take_kept(*here, op);
  op.set_phase(operation_base::phase::queued);
}

void message_core::receive_from(message_receive& op) noexcept {
  const protocol::tag_pattern& wanted = op.place_.pattern;
  const auto& from = *static_cast<const endpoint_core*>(wanted.from);
  if (from.state() == endpoint_state::closed && matcher_.probe(wanted) == nullptr) {
    return op.fail(std::move(*from.why_not("tag_recv")));
  }
  receive_kept(op);
}

void message_core::take_kept(protocol::tag_message& kept, message_receive& op) noexcept {
  message_segment& s = *static_cast<message_segment::kept&>(kept).owner;
  hand_over(s, op);
  frame_port::let_go(s);
}

std::optional<TagReceived> message_core::probe(const protocol::tag_pattern& pattern) noexcept {
  const protocol::tag_message* const found = matcher_.probe(pattern);
  if (found == nullptr) return {};
  const message_segment& s = *static_cast<const message_segment::kept*>(found)->owner;
  return TagReceived{
      .bytes = s.length(), .tag = found->tag(), .from = s.from ? s.from->handle() : nullptr};
}

std::optional<TaggedMessage> message_core::claim(const protocol::tag_pattern& pattern) noexcept {
  protocol::tag_message* const found = matcher_.probe(pattern);
  if (found == nullptr) return {};
  matcher_.claim(*found);
  message_segment& s = *static_cast<message_segment::kept*>(found)->owner;
  s.waiting.reset();
  return std::optional<TaggedMessage>(std::in_place, s);
}

void message_core::hand_over(message_segment& s, message_receive& op) noexcept {
  if (s.is_offer()) {
    if (s.from != nullptr) return s.from->start_fetch(s, op);
    return op.fail({errc::flushed, "its Endpoint is gone"});
  }
  op.got(s.data(), s.head.word, s.from != nullptr ? s.from->handle() : nullptr);
}

fetch* message_core::take_fetch() noexcept {
  if (!free_fetches_.empty()) return &free_fetches_.pop_front();
  try {
    all_fetches_.push_back(std::make_unique<fetch>());
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return all_fetches_.back().get();
}

void message_core::release(fetch& f) noexcept {
  f.reset();
  free_fetches_.push_front(f);
}

void message_core::run(message_segment& s) noexcept {
  const std::uint16_t id = protocol::am_of(s.head.word).id;
  const handler* const found = handlers_.of(id);
  if (found != nullptr && !found->plain) return start(found->task, s);
  ActiveMessage message(s);
  if (id == protocol::request_id_of_messages) {
    if (requests_ != nullptr) return on_request_message(*requests_, *s.from, std::move(message));
    if (keep_greeting(*s.from, message)) return;
  }
  // A rendezvous message is refused when its handle is destroyed.
  if (found == nullptr) {
    ++dropped_;
  } else if (!s.is_offer()) {
    call(found->plain, {message.from(), message.header(), message.data()});
  }
}

void message_core::call(const am_function& handler, const ShortMessage& message) noexcept {
  const handler_table::running now(handlers_);
  try {
    handler(message);
  } catch (...) {
    handlers_.count_failure();
  }
}

message_core* messages_of(const endpoint_core& e) noexcept {
  if (e.early() != nullptr) return early_of(e).core();
  if (e.frames() == nullptr) return nullptr;
  const frame_port* const port = peer_of(e).port();
  return port != nullptr ? &port->core() : nullptr;
}

}  // namespace cordma::detail

namespace cordma {

// Fast path for active messages that arrived complete.
void HeldMessage::end() noexcept {
  detail::message_segment& s = *segment_;
  if (s.head.kind != protocol::frame_kind::am_eager || s.from == nullptr ||
      !s.port->core().home()->on_owner_thread()) [[unlikely]]
    return let_go();
  s.from->let_go(s);
}

}  // namespace cordma
