#include "server.hpp"

#include "../../support/open_files.hpp"
#include "../command/information.hpp"
#include "limits.hpp"
#include "metrics_page.hpp"
#include "preflight.hpp"
#include "resp_conversation.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr std::uint32_t most_metrics_clients = 16;
constexpr auto tick_every = std::chrono::milliseconds(100);
constexpr auto tick_soon = std::chrono::milliseconds(2);  // if more keys are to expire
constexpr auto look_every = std::chrono::milliseconds(10);

[[noreturn]] void fail(const std::string& what) {
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value, what));
}

[[nodiscard]] std::uint64_t random_seed() {
  std::random_device from;
  return std::uint64_t{from()} << 32 | from();
}

[[nodiscard]] listening_options listening_of(const settings& s) {
  return {.backlog = s.tcp_backlog, .keepalive_s = s.tcp_keepalive};
}

// Returns false if the work is not ready and impatient() returned true.
[[nodiscard]] bool is_done(std::future<void> work, const std::function<bool()>& impatient) {
  while (work.wait_for(look_every) != std::future_status::ready) {
    if (impatient()) return false;
  }
  work.get();
  return true;
}

}  // namespace

std::shared_ptr<const tls_acceptor> server::tls_of(const settings& s) {
  using asked = support::tls_client_papers::asked;
  if (s.tls_port == 0) return nullptr;
  tls_options o{.certificate = s.tls_cert_file,
                .key = s.tls_key_file,
                .papers = {.how = asked::required, .authorities = s.tls_ca_cert_file}};
  if (s.tls_auth_clients == "no") o.papers.how = asked::none;
  if (s.tls_auth_clients == "optional") o.papers.how = asked::optional;
  return std::make_shared<const tls_acceptor>(o);
}

// The service's periodic work on one worker.
struct server::ticking final : cordma::timer {
  ticking(server& s, worker& w) noexcept
      : timer([](timer& t) noexcept { static_cast<ticking&>(t).tick(); }), of(s), on(w) {}
  void tick() noexcept {
    const bool more = of.service_->tick(on.index());
    on.loop().add(*this, on.loop().now() + (more ? cordma::duration(tick_soon) : tick_every));
  }
  server& of;
  worker& on;
};

server::server(server_options options, logbook& log, std::function<void()> wish_to_end)
    : options_(std::move(options)), log_(log), wish_to_end_(std::move(wish_to_end)) {
  const settings& s = options_.configured.values;
  if (::chdir(s.dir.c_str()) != 0) {
    cordma::throw_error(cordma::failure::from_os(errno, "dir: " + s.dir));
  }
  check_surroundings(options_);
  fit_open_files(options_.configured.values);
  support::widen_descriptor_table(files_wanted(s.maxclients, open_doors()));
  tls_ = tls_of(s);
  std::vector<std::unique_ptr<memory_source>> memory;
  if (options_.native.port != 0) {
    context_.emplace();
    for (const std::string& w : context_->configuration_warnings())
      log_.write(log_level::warning, w);
  }
  for (std::uint64_t i = 0; i < s.workers; ++i) {
    if (context_) {
      memory.push_back(std::make_unique<shared_memory>(*context_));
    } else {
      memory.push_back(std::make_unique<plain_memory>());
    }
  }
  store_options store;
  store.hash_seed = random_seed();
  keys_ = std::make_unique<keyspace>(std::move(memory), store);
  service_options o;
  o.workers = static_cast<unsigned>(s.workers);
  o.config_file = options_.config_file;
  service_ = std::make_unique<service>(*keys_, options_.configured, o);
  const std::string why = service_->load_users();
  if (!why.empty()) fail("aclfile: " + why);
  if (context_) native_door_ = native_door();
  apply(s);
  make_workers();
}

void server::make_workers() {
  const settings& s = options_.configured.values;
  for (unsigned i = 0; i < s.workers; ++i) {
    const worker_options o{.index = i, .wait = options_.wait, .io = options_.io};
    workers_.push_back(std::make_unique<worker>(o, door_settings_, log_));
  }
  workers_.front()->call([this] { keys_->held_here_alone(); });
  const durability::surroundings around{
      .home = *workers_.front(),
      .of = *service_,
      .log = log_,
      .io_uring = options_.io != io_choice::asio,
      .advanced =
          [this] {
            journal_advanced(0);
            if (leaving_) return;
            for (const std::unique_ptr<worker>& w : workers_) {
              const unsigned i = w->index();
              if (i != 0) w->post([this, i]() noexcept { journal_advanced(i); });
            }
          },
      .policy_changed =
          [this] {
            native_front* const native = native_seen_.load();
            if (native != nullptr) native->policy_changed();
          }};
  durability_ = std::make_unique<durability>(around, s);
  fill_hooks();
}

server::~server() {
  for (std::unique_ptr<ticking>& t : ticks_) {
    t->on.call([&t] { t.reset(); });
  }
  if (reception_) {
    workers_.front()->call([this] { reception_->close(); });
  }
  close_native();
  for (const entrance& e : entrances_) remove_unix_path(e.where);
  leave();
  durability_.reset();
  // Clients end with their worker, and use the service until then.
  workers_.clear();
}

// The journal belongs to the first worker. Clients of the other workers, which may still use it,
// end first; clients of the first then find no journal.
void server::leave() {
  leaving_ = true;
  for (const std::unique_ptr<worker>& w : workers_) w->call([] {});
  for (const std::unique_ptr<worker>& w : workers_) {
    if (w != workers_.front()) w->stop();
  }
  workers_.front()->call([this] {
    service_->hooks = {};
    service_->journal = nullptr;
  });
}

void server::fill_hooks() {
  service_hooks& h = service_->hooks;
  durability_->answer(h);
  h.much_was_freed = [this] { trimmer_.ask(); };
  h.warn = [this](std::string_view line) { warn(line); };
  h.more_info = [this](std::string_view section) {
    if (section == "server") return server_information();
    return section.empty() || section == "native" ? native_information() : std::string();
  };
  h.native_clients = [this]() -> std::size_t {
    const native_front* const native = native_seen_.load();
    return native == nullptr ? 0 : native->counted().open;
  };
  h.attend = [this](unsigned i) {
    if (!leaving_) workers_[i]->post([this, i]() noexcept { service_->attend(i); });
  };
  h.shutdown = [this](shutdown_request how) -> hook_answer {
    const bool saves = how.save == shutdown_request::snapshot::yes;
    const std::string taken = saves ? durability_->claim() : std::string();
    if (!taken.empty()) return {false, taken};
    {
      // A pending request with NOSAVE is not replaced: it ends the server for all clients.
      const std::lock_guard hold(ending_guard_);
      if (!ending_ || ending_->save != shutdown_request::snapshot::no) ending_ = how;
    }
    wish_to_end_();
    return {};
  };
  h.settings_change = [this](const settings& before, const settings& after) -> std::string {
    std::string why = fit_more_clients(before, after);
    if (!why.empty()) return why;
    why = durability_->change_settings(before, after);
    if (!why.empty()) return why;
    apply(after);
    return {};
  };
}

// Any worker's thread. Clients can cause warnings, so the same line is not repeated within a
// minute.
void server::warn(std::string_view line) {
  constexpr auto often = std::chrono::minutes(1);
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard hold(warned_guard_);
    if (line == warned_ && now - warned_at_ < often) return;
    warned_ = line;
    warned_at_ = now;
  }
  log_.write(log_level::warning, line);
}

// Applies the settings that do not concern the service.
void server::apply(const settings& s) {
  door_settings_.idle_seconds =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(s.timeout, UINT32_MAX));
  log_.set_least(parse_log_level(s.loglevel).value_or(log_level::notice));
}

// Takes the ports first, and starts the periodic changes (ticks) only once nothing can fail: a
// server that cannot start leaves the files as they are.
void server::open(const std::function<bool()>& unwanted) {
  listen();
  durability_->load(unwanted);
  // Clients may have read the memory of the previous server and not have noticed its end. Their
  // leases expire before anything is changed.
  if (context_) std::this_thread::sleep_for(native::lease + native::lease / 4);
  for (const std::unique_ptr<worker>& w : workers_) {
    ticks_.push_back(std::make_unique<ticking>(*this, *w));
    ticking& t = *ticks_.back();
    w->call([&t] { t.tick(); });
  }
  let_in();
  report();
}

std::uint32_t server::clients() const noexcept {
  std::uint32_t n = 0;
  for (const std::unique_ptr<worker>& w : workers_) n += w->clients();
  return n;
}

// On the first worker's thread.
std::uint32_t server::most_clients() const {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(service_->current(0).maxclients, UINT32_MAX));
}

cordma::duration server::patience() const {
  const std::uint32_t idle = door_settings_.idle_seconds;
  return idle == 0 ? native::usual_patience : std::chrono::seconds(idle);
}

reception::hall server::clients_hall(bool encrypted) {
  reception::hall h;
  h.maker = [this, encrypted](worker& w) -> conversation_maker {
    conversation_maker plain = [this, &w](session_origin origin, session::wake_function wake,
                                          void* context) {
      return std::make_unique<resp_conversation>(w.clients(), *service_, std::move(origin), wake,
                                                 context);
    };
    if (!encrypted) return plain;
    return [this, plain](session_origin origin, session::wake_function wake, void* context) {
      std::unique_lock hold(tls_guard_);
      const std::shared_ptr<const tls_acceptor> tls = tls_;
      hold.unlock();
      return tls->open(std::move(origin), plain, wake, context);
    };
  };
  h.inside = [this] { return clients(); };
  h.most = [this] { return most_clients(); };
  h.refused = [this] { service_->counters(0).rejected_connections.add(); };
  if (!encrypted) h.refusal = "-ERR max number of clients reached\r\n";
  return h;
}

reception::hall server::metrics_hall() {
  struct guest final : conversation {
    guest(std::atomic<std::uint32_t>& count, std::unique_ptr<conversation> page)
        : place(count), inner(std::move(page)) {}
    void received(std::span<const char> bytes) override { inner->received(bytes); }
    void no_more_input() override { inner->no_more_input(); }
    void resume() override { inner->resume(); }
    [[nodiscard]] std::span<const char> pending() const noexcept override {
      return inner->pending();
    }
    void sent(std::size_t bytes) noexcept override { inner->sent(bytes); }
    [[nodiscard]] bool wants_input() const noexcept override { return inner->wants_input(); }
    [[nodiscard]] session::ending ended() const noexcept override { return inner->ended(); }
    seat place;
    std::unique_ptr<conversation> inner;
  };
  reception::hall h;
  h.maker = [this](worker& w) -> conversation_maker {
    return [this, &w](const session_origin&, session::wake_function wake, void* context) {
      return std::make_unique<guest>(
          guests_.inside, make_metrics_page(w.loop(), [this] { return figures(); }, wake, context));
    };
  };
  h.inside = [this] { return guests_.inside.load(); };
  h.most = [] { return most_metrics_clients; };
  h.first_worker_only = true;
  return h;
}

void server::listen_at(listening where, const reception::hall& to, const std::string& kind) {
  reached_from_afar_ |= is_reached_from_afar(where);
  addresses_.push_back(kind + " " + where.address);
  entrances_.push_back({std::move(where), to});
}

void server::listen() {
  const settings& s = options_.configured.values;
  const listening_options o = listening_of(s);
  const auto latest = std::chrono::steady_clock::now() + listen_patience;
  const auto on = [&](std::uint64_t port, door kind, const reception::hall& to, const char* what) {
    if (port == 0) return;
    const auto take = [&] { return listen_tcp(s.bind, static_cast<std::uint16_t>(port), kind, o); };
    for (listening& l : listen_patiently(latest, take)) listen_at(std::move(l), to, what);
  };
  on(s.port, door::tcp, clients_hall(false), "tcp");
  on(s.tls_port, door::tls, clients_hall(true), "tls");
  if (!s.unixsocket.empty()) {
    const auto take = [&] { return listen_unix(s.unixsocket, unix_permission(s), o); };
    listen_at(listen_patiently(latest, take), clients_hall(false), "unix");
  }
  on(s.metrics_port, door::tcp, metrics_hall(), "metrics");
  if (!context_) return;
  native_ = listen_patiently(latest, [this] { return listen_natively(); });
  native_seen_ = native_.get();
  addresses_.push_back("native " + native_->address());
  const auto& missing = native_->missing();
  for (const cordma::transport::capabilities& t : context_->transports()) {
    const bool there =
        std::ranges::none_of(missing, [&](const auto& m) { return m.first == t.transport; });
    if (there) addresses_.back() += " " + std::string(name(t.transport));
  }
  for (const auto& [kind, why] : missing) {
    log_.write(log_level::warning, "native clients cannot come over " + std::string(name(kind)) +
                                       ": " + why.describe());
  }
}

void server::let_in() {
  if (native_) native_->admit();
  reception_ = std::make_unique<reception>(workers_, log_);
  workers_.front()->call([this] {
    for (entrance& e : entrances_) reception_->open(std::move(e.where), e.to);
  });
  entrances_.clear();
}

void server::journal_advanced(unsigned worker) noexcept {
  service_->journal_advanced(worker);
  native_front* const native = native_seen_.load();
  if (native != nullptr) native->journal_advanced(worker);
}

void server::close_native() {
  native_seen_ = nullptr;
  // Entrances end worker by worker. After one pass of each worker, none still reads the figures of
  // all (INFO).
  for (const std::unique_ptr<worker>& w : workers_) w->call([] {});
  native_.reset();
}

native::door_options server::native_door() {
  const settings& s = options_.configured.values;
  native::door_options how{.one_sided = options_.native.one_sided,
                           .patience = [this] { return patience(); }};
  if (options_.native.token_file
          .empty()) {  // the default user's password at the time a client connects
    how.admits = [this](std::string_view token) {
      const std::shared_ptr<const user> who = service_->accounts().find("default");
      return who != nullptr && who->enabled && who->unlimited() &&
             (who->any_password || service_->accounts().authenticate("default", token) != nullptr);
    };
  } else {
    how.token = native_token(options_.native.token_file);
  }
  const std::string at = native_host(s);
  const bool here = at == "127.0.0.1" || at == "localhost" || at == "[::1]";
  if (!here && how.admits && how.admits("") && s.protected_mode) {
    fail("native-port: at " + (at.empty() ? "*" : at) +
         " whoever reaches it could come in: it takes a native-token-file, or a password "
         "(requirepass); or protected-mode no");
  }
  return how;
}

std::unique_ptr<native_front> server::listen_natively() {
  const native_front::surroundings around{
      .context = *context_,
      .workers = workers_,
      .keys = *keys_,
      .journal = &durability_->gate(),
      .now =
          [this](unsigned worker) {
            service_->read_time(worker);
            return service_->now_ms(worker);
          },
      .is_still = [this](unsigned worker) { return service_->is_still(worker); },
      .information =
          [this](unsigned worker, std::string_view section) {
            const keyspace::hold everything(*keys_, keys_->all());
            return information(*service_, worker, section);
          },
      .has_place =
          [this] {
            if (clients() < most_clients()) return true;
            service_->counters(0).rejected_connections.add();
            return false;
          }};
  return std::make_unique<native_front>(around, native_host(options_.configured.values),
                                        options_.native.port, native_door_);
}

std::string server::native_information() const {
  const native_front* const native = native_seen_.load();
  if (native == nullptr) return {};
  const native_front::figures f = native->counted();
  return "# Native\r\nnative_address:" + native->address() +
         "\r\nnative_connections:" + std::to_string(f.open) +
         "\r\nnative_connections_received:" + std::to_string(f.connections) +
         "\r\nnative_connections_refused:" + std::to_string(f.refused) +
         "\r\nnative_connections_timed_out:" + std::to_string(f.timed_out) +
         "\r\nnative_memory_lent:" + std::to_string(f.lent_bytes) +
         "\r\nnative_batches:" + std::to_string(f.batches) +
         "\r\nnative_operations:" + std::to_string(f.operations) + "\r\n";
}

bool server::close(const std::function<bool()>& impatient) {
  workers_.front()->call([this] { reception_->close(); });
  for (const std::unique_ptr<worker>& w : workers_) {
    w->call([&w] { w->door().stop_reading(); });
  }
  close_native();
  bool kept = true;
  try {
    kept = is_done(durability_->close(), impatient);
  } catch (const std::exception& e) {
    log_.write(log_level::warning, std::string("not all is on the disk: ") + e.what());
    kept = false;
  }
  return dismiss_all(impatient) && kept;
}

bool server::may_end(bool insisted, const std::function<bool()>& impatient) {
  const std::optional<shutdown_request> asked = take_wish();
  const shutdown_request how = asked.value_or(shutdown_request());
  if (how.save == shutdown_request::snapshot::no) return true;
  const bool in_any_case = how.force || insisted;
  const std::string why = keep(
      how.save, in_any_case ? durability::patience::brief : durability::patience::usual, impatient);
  if (why.empty() || impatient()) return true;
  if (in_any_case) {
    log_.write(log_level::warning, "not all is on the disk: " + why);
    return true;
  }
  log_.write(
      log_level::warning,
      "it does NOT end, for what changed would be lost: " + why +
          ". See to that, or end it without: a second signal soon, SHUTDOWN NOSAVE or FORCE");
  durability_->allow_background();
  {
    // If another client has sent SHUTDOWN meanwhile, that request is next and its result answers
    // both.
    const std::lock_guard hold(ending_guard_);
    if (!ending_) ++service_->failed_endings;
  }
  durability_->hold_changes(false);  // clients that sent SHUTDOWN receive the result too
  return false;
}

std::optional<shutdown_request> server::take_wish() {
  const std::lock_guard hold(ending_guard_);
  return std::exchange(ending_, std::nullopt);
}

bool server::is_wished() {
  const std::lock_guard hold(ending_guard_);
  return ending_.has_value();
}

std::string server::keep(shutdown_request::snapshot wanted, durability::patience with_the_disk,
                         const std::function<bool()>& impatient) try {
  constexpr const char* hurried = "a signal ended it at once";
  // The data to keep may be on its way to a journal that was just turned on.
  if (!is_done(durability_->until_on(), impatient)) return hurried;
  durability_->hold_changes(true);
  // Until each worker has made a pass, one may still be changing data.
  for (const std::unique_ptr<worker>& w : workers_) w->call([] {});
  const std::shared_ptr<const settings> s = service_->snapshot();
  const bool noted = durability_->info().appendonly;
  if (wanted == shutdown_request::snapshot::yes || (!s->save.empty() && !noted)) {
    // A snapshot in progress lacks the latest changes, and none can start beside it or beside a
    // rewrite.
    if (!is_done(durability_->end_background(), impatient)) return hurried;
    durability_->save();
  } else if (s->appendonly && !noted) {
    return "appendonly is not on yet: its first rewrite failed";
  }
  return is_done(durability_->until_durable(with_the_disk), impatient) ? "" : hurried;
} catch (const std::exception& e) {
  return e.what();
}

bool server::dismiss_all(const std::function<bool()>& impatient) {
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::seconds(service_->snapshot()->shutdown_timeout);
  for (const std::unique_ptr<worker>& w : workers_) {
    w->call([&w] { w->door().dismiss(); });
  }
  while (clients() != 0) {
    if (impatient()) return false;
    if (std::chrono::steady_clock::now() > deadline) {
      log_.write(log_level::warning,
                 std::to_string(clients()) + " clients did not read what was pending for them");
      return true;  // they had their time
    }
    std::this_thread::sleep_for(look_every);
  }
  return true;
}

}  // namespace kv
