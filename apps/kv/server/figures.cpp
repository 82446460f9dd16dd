// The metrics of a server, for Prometheus.
#include "figures.hpp"

#include "../command/information.hpp"
#include "server.hpp"

#include <chrono>

namespace kv {
namespace {

using kind = metrics_text::kind;

void one(metrics_text& out, std::string_view name, kind k, std::string_view help,
         std::uint64_t value) {
  out.family(name, k, help).value(value);
}

void write_clients(metrics_text& out, service& s, std::uint64_t clients) {
  const auto total = [&s](relaxed_counter worker_counters::* which) { return s.total(which); };
  one(out, "uptime_seconds", kind::gauge, "Since it was started",
      static_cast<std::uint64_t>(s.uptime().count()));
  one(out, "connected_clients", kind::gauge, "Clients now", clients);
  one(out, "max_clients", kind::gauge, "maxclients", s.snapshot()->maxclients);
  one(out, "connections_received_total", kind::counter, "Clients ever",
      total(&worker_counters::connections));
  one(out, "rejected_connections_total", kind::counter, "Above maxclients",
      total(&worker_counters::rejected_connections));
  one(out, "commands_processed_total", kind::counter, "Commands carried out",
      total(&worker_counters::commands));
  one(out, "error_replies_total", kind::counter, "Replies that were errors",
      total(&worker_counters::error_replies));
  one(out, "clients_killed_for_output_total", kind::counter, "Above client-output-buffer-limit",
      total(&worker_counters::killed_for_output));
}

void write_keys(metrics_text& out, keyspace& keys, std::uint64_t most_bytes) {
  store_counters all;
  std::uint64_t count = 0;
  std::uint64_t expiring = 0;
  std::uint64_t used = 0;
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    const keyspace::hold hold(keys, std::uint64_t{1} << i);
    const store& shard = keys.at(i);
    all.hits += shard.counters().hits;
    all.misses += shard.counters().misses;
    all.expired += shard.counters().expired;
    all.evicted += shard.counters().evicted;
    all.refused += shard.counters().refused;
    count += shard.size();
    expiring += shard.volatile_size();
    used += shard.usage().bytes;
  }
  one(out, "keys", kind::gauge, "Keys now", count);
  one(out, "keys_expiring", kind::gauge, "Keys now that have a time to live", expiring);
  one(out, "memory_used_bytes", kind::gauge, "Of keys and values, with what finds them", used);
  const std::uint64_t resident = resident_bytes();
  one(out, "memory_rss_bytes", kind::gauge, "Of the process, as the kernel counts it", resident);
  out.family("memory_fragmentation_ratio", kind::gauge, "memory_rss_bytes by memory_used_bytes")
      .value(used == 0 ? 0.0 : static_cast<double>(resident) / static_cast<double>(used));
  one(out, "memory_max_bytes", kind::gauge, "maxmemory; 0: no limit", most_bytes);
  one(out, "keyspace_hits_total", kind::counter, "Keys that were found", all.hits);
  one(out, "keyspace_misses_total", kind::counter, "Keys that were not there", all.misses);
  one(out, "expired_keys_total", kind::counter, "Keys whose time was over", all.expired);
  one(out, "evicted_keys_total", kind::counter, "Keys that made room", all.evicted);
  one(out, "refused_writes_total", kind::counter, "For want of memory", all.refused);
}

void write_workers(metrics_text& out, const std::vector<std::unique_ptr<worker>>& all) {
  struct row {
    const char* name;
    const char* help;
    relaxed_counter door_counters::* which;
  };
  out.family("worker_clients", kind::gauge, "Clients of each worker");
  const auto label = [](worker& w) { return "worker=\"" + std::to_string(w.index()) + "\""; };
  for (const std::unique_ptr<worker>& w : all) {
    out.value(std::uint64_t{w->clients().load()}, label(*w));
  }
  for (const row& r :
       {row{"input_bytes_total", "Bytes that came", &door_counters::received_bytes},
        row{"output_bytes_total", "Bytes that went", &door_counters::sent_bytes},
        row{"kernel_calls_total", "System calls for sockets", &door_counters::kernel_calls},
        row{"reading_pauses_total", "Clients that were not read, for they did not read",
            &door_counters::pauses},
        row{"idle_clients_closed_total", "Clients above timeout", &door_counters::timed_out}}) {
    out.family(r.name, kind::counter, r.help);
    for (const std::unique_ptr<worker>& w : all) {
      out.value((w->door().counters().*r.which).get(), label(*w));
    }
  }
}

}  // namespace

void write_journal(metrics_text& out, const journal_info& j) {
  one(out, "journal_enabled", kind::gauge, "1 while what changes is in it", j.appendonly ? 1 : 0);
  one(out, "journal_bytes", kind::gauge, "Of its files", j.current_bytes);
  one(out, "journal_pending_bytes", kind::gauge, "Not on the disk yet", j.pending_bytes);
  one(out, "journal_in_trouble", kind::gauge, "1 while it cannot be written", j.trouble ? 1 : 0);
  one(out, "changes_since_snapshot", kind::gauge, "Changes that the last snapshot has not",
      j.changes_since_snapshot);
  one(out, "journal_pending_records", kind::gauge,
      "Changes that the loss of power would take: not on the disk for good", j.pending_records);
  one(out, "journal_backlogged", kind::gauge, "1 while changes wait until less is pending",
      j.backlogged ? 1 : 0);
  one(out, "journal_writes_total", kind::counter, "Writes to its files", j.writes.writes);
  one(out, "journal_fsyncs_total", kind::counter, "Times they were brought onto the disk",
      j.writes.syncs);
  one(out, "journal_slow_fsyncs_total", kind::counter, "Of those, that took two seconds or longer",
      j.writes.slow_syncs);
  out.family("journal_last_fsync_seconds", kind::gauge, "How long the last one took")
      .value(std::chrono::duration<double>(j.writes.last_sync).count());
}

void write_native(metrics_text& out, const native_front::figures& f) {
  one(out, "native_connections", kind::gauge, "Native clients now; among connected_clients",
      f.open);
  one(out, "native_connections_received_total", kind::counter, "Native clients ever",
      f.connections);
  one(out, "native_connections_refused_total", kind::counter, "For their token", f.refused);
  one(out, "native_connections_timed_out_total", kind::counter,
      "That were not admitted within timeout", f.timed_out);
  one(out, "native_memory_lent_bytes", kind::gauge,
      "Of buffers for requests and answers that are under way", f.lent_bytes);
  one(out, "native_batches_total", kind::counter, "Batches that were asked for", f.batches);
  one(out, "native_operations_total", kind::counter,
      "Operations in them. What clients read one-sidedly only they can count", f.operations);
}

std::string server::figures() const {
  if (leaving_) return {};
  metrics_text out;
  write_clients(out, *service_, clients());
  write_keys(out, *keys_, service_->snapshot()->maxmemory);
  write_journal(out, durability_->info());
  const native_front* const native = native_seen_.load();
  if (native != nullptr) write_native(out, native->counted());
  write_workers(out, workers_);
  return out.take();
}

}  // namespace kv
