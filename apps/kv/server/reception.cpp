#include "reception.hpp"

#include <cordma/runtime/result.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>

#include <sys/socket.h>

namespace kv {

reception::~reception() {
  for (const std::unique_ptr<entrance>& e : entrances_) remove_unix_path(e->where);
}

void reception::open(listening where, const hall& to) {
  auto made = std::make_unique<entrance>(entrance{*this, std::move(where), to, {}});
  for (const std::unique_ptr<worker>& w : workers_) made->makers.push_back(to.maker(*w));
  entrance& at = *made;
  entrances_.push_back(std::move(made));
  workers_.front()->door().listen(
      at.where.socket.get(),
      [](void* context, cordma::unique_fd socket) noexcept {
        auto& e = *static_cast<entrance*>(context);
        try {
          e.of.arrived(e, std::move(socket));
        } catch (const std::exception&) {  // out of memory: the socket is closed
          ++e.of.counters_.failures;
        }
      },
      [](void* context, int error) noexcept {
        const auto& e = *static_cast<entrance*>(context);
        e.of.failed(e, error);
      },
      &at);
}

void reception::close() noexcept {
  workers_.front()->door().stop_listening();
  for (const std::unique_ptr<entrance>& e : entrances_) {
    remove_unix_path(e->where);
    e->where.kind = door::tcp;  // no path to remove any more
    e->where.socket.reset();
  }
}

void reception::arrived(entrance& at, cordma::unique_fd socket) {
  if (at.to.inside() >= at.to.most()) {
    ++counters_.refused;
    if (at.to.refused) at.to.refused();
    [[maybe_unused]] const ssize_t told = ::send(socket.get(), at.to.refusal.data(),
                                                 at.to.refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  ++counters_.accepted;
  worker& w = at.to.first_worker_only ? *workers_.front() : least_busy();
  session_origin origin;
  origin.peer = peer_of(socket.get());
  origin.local = local_of(socket.get());
  origin.came_by = at.where.kind;
  origin.descriptor = socket.get();
  origin.worker = w.index();
  origin.loopback = peer_is_here(socket.get());
  const conversation_maker& maker = at.makers[w.index()];
  if (&w == workers_.front().get())
    return w.door().adopt(std::move(socket), std::move(origin), maker);
  w.post([&w, &maker, socket = std::move(socket), origin = std::move(origin)]() mutable noexcept {
    w.door().adopt(std::move(socket), std::move(origin), maker);
  });
}

void reception::failed(const entrance& at, int error) noexcept try {
  ++counters_.failures;
  std::string what = "nobody can come to " + at.where.address +
                     " for a second: " + cordma::failure::from_os(error, "accept").message();
  if (error == EMFILE || error == ENFILE) {
    what += "; or lower maxclients";
  }
  log_.write(log_level::warning, what);
} catch (const std::exception&) {
  return;  // out of memory for a line
}

worker& reception::least_busy() noexcept {
  worker* best = workers_.front().get();
  for (const std::unique_ptr<worker>& w : workers_) {
    if (w->clients() < best->clients()) best = w.get();
  }
  return *best;
}

}  // namespace kv
