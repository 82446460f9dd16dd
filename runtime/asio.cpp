#include <cordma/runtime/asio.hpp>

#include <asio/error.hpp>
#include <asio/post.hpp>

#include <cerrno>

namespace cordma {

asio_host::asio_host(reactor& home, const asio_host_options& options)
    : home_(home),
      options_(options),
      io_(1),
      work_(asio::make_work_guard(io_)),
      reactor_fd_(io_, home.fd()) {
  if (&home.time() != &real_clock()) {
    reactor_fd_.release();
    throw_error({errc::not_supported,
                 "an io_context needs the real clock, and this reactor's time is virtual"});
  }
  const result<void> added = home_.add(*this);
  CORDMA_ASSERT(added.ok());
  home_.set_sleeper(this);
}

asio_host::~asio_host() {
  home_.set_sleeper(nullptr);
  home_.remove(*this);
  reactor_fd_.release();  // owned by the reactor
}

std::size_t asio_host::ask() noexcept {
  ++polls_;
  passes_left_ = options_.passes;
  last_ask_ = home_.now();
  if (io_.stopped()) io_.restart();  // a stop() of the program must not stop the host
  return io_.poll();
}

std::size_t asio_host::poll() noexcept {
  if (home_.take_expectation() || armed_) return ask();
  if (passes_left_ > 0) {
    --passes_left_;
    return 0;
  }
  if (home_.now() - last_ask_ < options_.interval) {
    passes_left_ = options_.passes;
    return 0;
  }
  return ask();
}

arm_state asio_host::arm() noexcept {
  armed_ = true;
  return ask() > 0 ? arm_state::busy : arm_state::armed;
}

void asio_host::sleep(int) noexcept {
  if (!waiting_) {
    waiting_ = true;
    reactor_fd_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](const std::error_code&) { waiting_ = false; });
  }
  io_.run_one();
}

// Handlers in the io_context keep this object alive; `driven_` shows whether the driver still
// exists.
class asio_driver::state : public std::enable_shared_from_this<asio_driver::state> {
 public:
  state(reactor& r, asio::io_context& io) : driven_(&r), io_(io), fd_(io, r.fd()) {}
  ~state() { fd_.release(); }

  void begin() {
    asio::post(io_, [self = shared_from_this()] {
      if (self->driven_ == nullptr) return;
      self->driven_->bind();
      self->pump();
    });
  }
  void end() noexcept {
    if (waiting_) driven_->finish_wait();
    driven_ = nullptr;
    std::error_code ignored;
    fd_.cancel(ignored);
  }

 private:
  static constexpr int turns_between_handlers = 64;

  void pump() {
    for (int i = 0; i < turns_between_handlers; ++i) {
      const bool worked = driven_->turn();
      if (driven_ == nullptr) return;  // destroyed by a handler of this pass
      if (!worked) {
        if (driven_->prepare_wait() == arm_state::armed) return wait();
      }
    }
    asio::post(io_, [self = shared_from_this()] {
      if (self->driven_ != nullptr) self->pump();
    });
  }
  void wait() {
    waiting_ = true;
    fd_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](const std::error_code&) {
                     if (self->driven_ == nullptr) return;
                     self->waiting_ = false;
                     self->driven_->finish_wait();
                     self->pump();
                   });
  }

  reactor* driven_;
  asio::io_context& io_;
  asio::posix::stream_descriptor fd_;
  bool waiting_ = false;
};

asio_driver::asio_driver(reactor& driven, asio::io_context& io)
    : state_(std::make_shared<state>(driven, io)) {
  state_->begin();
}

asio_driver::~asio_driver() { state_->end(); }

namespace detail {

void throw_asio_error(const std::error_code& ec) {
  if (ec.category() != asio::error::get_system_category() &&
      ec.category() != std::generic_category()) {
    throw std::system_error(ec);
  }
  failure f = failure::from_os(ec.value(), "asio operation");
  throw_error(f.with_operation("asio"));
}

failure asio_canceled() noexcept {
  failure f(errc::canceled);
  f.with_operation("asio");
  return f;
}

}  // namespace detail
}  // namespace cordma
