#include "native_front.hpp"

#include <cerrno>
#include <fstream>
#include <utility>

namespace kv {

native_front::native_front(const surroundings& around)
    : keys_(around.keys),
      journal_(around.journal),
      workers_(around.workers),
      entrances_(around.workers.size()) {}

// Delegates, so that the destructor ends the entrances made so far if this fails.
native_front::native_front(const surroundings& around, const std::string& host, std::uint64_t port,
                           const native::door_options& how)
    : native_front(around) {
  for (const std::unique_ptr<worker>& w : workers_) {
    w->call([&] {
      const unsigned i = w->index();
      entrances_[i] = std::make_unique<native_entrance>(
          native_entrance::surroundings{
              .context = around.context,
              .loop = w->loop(),
              .keys = around.keys,
              .journal = around.journal,
              .now = [now = around.now, i] { return now(i); },
              .is_still = [is_still = around.is_still, i] { return is_still && is_still(i); },
              .information = [tell = around.information,
                              i](std::string_view section) { return tell(i, section); },
              .clients = w->clients(),
              .has_place = around.has_place},
          how);
    });
  }
  std::vector<native_entrance*> all;
  for (const std::unique_ptr<native_entrance>& e : entrances_) all.push_back(e.get());
  workers_.front()->call([&] {
    entrances_.front()->share(all);
    entrances_.front()->listen(host + ":" + std::to_string(port));
    address_ = entrances_.front()->bound();
    missing_ = entrances_.front()->missing();
  });
}

void native_front::admit() {
  workers_.front()->call([this] {
    mark_safe();
    entrances_.front()->admit();
  });
}

void native_front::journal_advanced(unsigned worker) noexcept {
  if (worker == 0) mark_safe();
  entrances_[worker]->journal_advanced();
}

native_front::mark native_front::take_mark() {
  mark m;
  for (std::uint32_t i = 0; i < keys_.shards(); ++i) {
    m.versions.push_back(keys_.at(i).last_version());
  }
  m.appended = journal_->appended();
  return m;
}

// Versions that exist by now count as safe: waiting would not make them safer.
void native_front::begin_marking() {
  if (marking_.exchange(true)) return;
  mark_ = take_mark();
  tell_safe();
}

void native_front::policy_changed() noexcept {
  if (journal_ != nullptr && journal_->waits()) begin_marking();
}

// If nothing is acknowledged before it is on the disk, one-sided readers must not see it earlier
// either. The journal reports commits rather than versions: so both positions are recorded, and the
// versions are published once that commit is on the disk.
void native_front::mark_safe() noexcept {
  if (journal_ == nullptr || (!journal_->waits() && !marking_)) return;
  const keyspace::hold everything(keys_, keys_.all());
  if (!journal_->waits()) {
    marking_ = false;
    for (std::uint32_t i = 0; i < keys_.shards(); ++i) keys_.at(i).safe_up_to(UINT64_MAX);
    return;
  }
  begin_marking();
  for (int twice = 0; twice < 2 && journal_->durable() >= mark_.appended; ++twice) {
    tell_safe();
    mark_ = take_mark();
  }
}

void native_front::tell_safe() noexcept {
  for (std::uint32_t i = 0; i < keys_.shards(); ++i) keys_.at(i).safe_up_to(mark_.versions[i]);
}

native_front::~native_front() {
  for (const std::unique_ptr<worker>& w : workers_) {
    w->call([&] { entrances_[w->index()].reset(); });
  }
}

void native_front::stop_listening() {
  workers_.front()->call([this] { entrances_.front()->stop_listening(); });
}

native_front::figures native_front::counted() const noexcept {
  figures sum;
  for (const std::unique_ptr<native_entrance>& e : entrances_) {
    const native::door_counters& c = e->counters();
    sum.open += c.opened.get() - c.closed.get();
    sum.connections += c.opened.get();
    sum.refused += c.refused.get();
    sum.timed_out += c.timed_out.get();
    sum.lent_bytes += c.lent.bytes.get();
    sum.batches += c.batches.get();
    sum.operations += c.operations.get();
  }
  return sum;
}

std::string native_token(const std::string& file) {
  std::ifstream in(file);
  std::string token;
  if (!in) {
    const int error = errno;
    cordma::throw_error(cordma::failure::from_os(error, "native-token-file: " + file));
  }
  std::getline(in, token);
  if (token.empty()) {  // an empty token would admit any client
    cordma::throw_error(
        cordma::failure(cordma::errc::invalid_value,
                        "native-token-file: " + file + " has no token in its first line"));
  }
  return token;
}

}  // namespace kv
