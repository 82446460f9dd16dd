#include "worker.hpp"

#include <exception>
#include <future>
#include <string>

#include <pthread.h>

namespace kv {

std::optional<io_choice> parse_io_choice(std::string_view text) noexcept {
  if (text == "auto") return io_choice::automatic;
  if (text == "uring") return io_choice::uring;
  if (text == "asio") return io_choice::asio;
  return std::nullopt;
}

std::unique_ptr<front_door> open_front_door(io_choice choice, cordma::reactor& loop,
                                            const door_settings& settings, logbook& log) {
  if (choice != io_choice::asio) {
    cordma::result<std::unique_ptr<front_door>> ring = make_ring_door(loop, settings);
    if (ring) return std::move(ring).value();
    if (choice == io_choice::uring) cordma::throw_error(ring.why());
    log.write(log_level::notice,
              "sockets are served by Asio, at more CPU per request: " + ring.why().message());
  }
  return make_asio_door(loop, settings);
}

worker::worker(const worker_options& options, const door_settings& settings, logbook& log)
    : options_(options), settings_(settings), log_(log) {
  std::promise<void> begun;
  std::future<void> beginning = begun.get_future();
  thread_ = std::thread([this, &begun] {
    run([&begun](std::exception_ptr failed) {
      if (failed) {
        begun.set_exception(std::move(failed));
      } else {
        begun.set_value();
      }
    });
  });
  try {
    beginning.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

worker::~worker() { stop(); }

void worker::run(const std::function<void(std::exception_ptr)>& begun) noexcept {
  ::pthread_setname_np(::pthread_self(), ("kv-worker-" + std::to_string(options_.index)).c_str());
  try {
    cordma::reactor_options o;
    o.mode = options_.wait;
    loop_ = std::make_unique<cordma::reactor>(o);
    door_ = open_front_door(options_.io, *loop_, settings_, log_);
  } catch (...) {
    return begun(std::current_exception());
  }
  begun(nullptr);
  const auto over = [](void* self) noexcept {
    return static_cast<worker*>(self)->stopping_.load(std::memory_order_acquire);
  };
  const cordma::result<void> ended = loop_->run_until(over, this);
  if (!ended) log_.write(log_level::warning, "a worker has ended: " + ended.why().message());
  door_.reset();
  loop_.reset();
}

void worker::call(const std::function<void()>& work) {
  std::promise<void> done;
  std::future<void> end = done.get_future();
  post([&work, done = std::move(done)]() mutable noexcept {
    try {
      work();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  end.get();
}

void worker::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  loop_->wake();
  thread_.join();
}

}  // namespace kv
