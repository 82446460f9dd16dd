// The side that writes files.
#pragma once

#include "../files/crew.hpp"
#include "../files/digest.hpp"
#include "../files/file_ring.hpp"
#include "../protocol/asked.hpp"
#include "../protocol/lane.hpp"
#include "../protocol/pulse.hpp"
#include "../protocol/wire.hpp"
#include "../target/resume.hpp"
#include "../target/target.hpp"
#include "../tree/filter.hpp"
#include "ledger.hpp"
#include "pools.hpp"
#include "progress.hpp"
#include "sender.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/sleep.hpp>

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <sys/stat.h>

namespace copy {

// Receives the entries that a sender lists, unless the target already has them. Bound to the thread
// of its Worker.
class receiver {
 public:
  // As for sender; `chosen` are the sender's rules. `only_name`: local name of the file if the one
  // source is a file; else empty.
  receiver(cordma::Context& context, cordma::Worker& worker, file_ring& files,
           std::vector<std::unique_ptr<lane>>& lanes, target& into, std::string only_name,
           const filter& chosen, const transfer_options& options, progress& shown,
           const item_sink& tell);
  receiver(const receiver&) = delete;
  receiver& operator=(const receiver&) = delete;
  ~receiver();

  // Writes the one file of the transfer in order to `output`, and nowhere else. `output` stays open
  // during the life of the receiver. REQUIRES: before run().
  void write_to(int output) noexcept { output_ = output; }
  // Limits the entries that are accepted; see asked::only. REQUIRES: before run().
  void expect_only(named_sources named) { asked_.only(std::move(named)); }
  // For a client that pulls: progress is noted in `done`, and files finished there are skipped.
  // REQUIRES: before run(); `done` outlives the receiver.
  void keep_in(ledger& done) noexcept { ledger_ = &done; }

  // As sender::run().
  [[nodiscard]] cordma::task<outcome> run();

 private:
  struct incoming;  // a file that is being written

  [[nodiscard]] cordma::task<void> read_lane(std::uint32_t number);
  [[nodiscard]] cordma::task<void> refuse_all(std::exception_ptr why);
  void take(frame_reader& in, std::uint32_t lane);
  void take_entries(frame_reader& in);
  void take_chunk(const chunk_frame& c, std::uint32_t lane);
  void take_bundle(bundle_frame b, std::uint32_t lane);
  void take_file_end(const file_end& f);
  void expect(incoming& f, const chunk_frame& c);
  void end_stream(incoming& f, std::uint64_t bytes);
  void take_problem(problem p);
  void take_end_of_all(frame_reader& in);

  // Decide what to do about an entry.
  void consider(std::uint32_t number, const entry& e);
  void consider_file(std::uint32_t number, const entry& e);
  void consider_directory(const entry& e);
  void close_in_the_end(const entry& e);
  void narrow(const entry& e, struct stat& now);
  void open_up(const std::string& path, const struct stat& now);
  [[nodiscard]] std::vector<std::string> set_mode(const std::string& directory, std::uint32_t mode);
  void close_again() noexcept;
  void consider_hard_link(std::uint32_t number);
  void note_first_name(std::uint32_t number, const entry& e);
  void pass_over(const entry& e);
  void consider_link(const entry& e);
  void consider_special(const entry& e);
  void put_node(const entry& e, const std::function<bool(const struct stat&)>& is_as_wanted,
                const std::function<cordma::result<void>()>& make);
  void consider_stream(std::uint32_t number, const entry& e);
  void consider_output(std::uint32_t number, const entry& e);
  [[nodiscard]] bool is_passed_over(const entry& e, const struct stat* now) const noexcept;
  // If this cannot be determined a problem is added; the second form reports it.
  [[nodiscard]] bool is_cut_off(const entry& e, const struct stat* now,
                                std::vector<problem>& problems);
  [[nodiscard]] bool is_cut_off(const entry& e, const struct stat* now);
  [[nodiscard]] std::uint16_t differences_here(const entry& e, const struct stat& now);
  [[nodiscard]] std::uint16_t differences_of_file(const entry& e, const struct stat& now);
  void keep_same(const entry& e, const struct stat& now);
  [[nodiscard]] bool is_in_new_directory(const std::string& path) const;
  // `now`: attributes of the existing file, or null if it does not exist or was not examined.
  void want_file(std::uint32_t number, const entry& e, item::change change,
                 const struct stat* now = nullptr);
  [[nodiscard]] cordma::task<void> compare(std::uint32_t number);
  void take_compared(const compared_frame& c);

  [[nodiscard]] cordma::task<void> write_chunk(std::shared_ptr<incoming> f, chunk_frame c,
                                               std::uint32_t lane);
  [[nodiscard]] cordma::task<void> write_bundle(bundle_frame b, std::uint32_t lane);
  void ask_again(incoming& f, std::uint64_t index, std::uint64_t digest);
  struct small_file;
  [[nodiscard]] cordma::result<void> view_of(std::size_t thread) noexcept;
  void write_small(small_file& f, target& into, const std::atomic<bool>& canceled) noexcept;
  void conclude_small(small_file& f);
  [[nodiscard]] cordma::task<int> write_in_turn(std::shared_ptr<incoming> f, const chunk_frame& c,
                                                std::span<const std::byte> bytes);
  [[nodiscard]] cordma::task<int> write_whole(int fd, std::span<const std::byte> bytes,
                                              std::uint64_t offset);
  [[nodiscard]] cordma::task<int> write_bytes(std::shared_ptr<incoming> f,
                                              std::span<const std::byte> bytes,
                                              std::uint64_t offset);
  [[nodiscard]] cordma::task<int> write_data(std::shared_ptr<incoming> f,
                                             std::span<const std::byte> bytes,
                                             std::uint64_t offset);
  [[nodiscard]] cordma::task<int> write_hole(std::shared_ptr<incoming> f, std::uint64_t offset,
                                             std::uint64_t bytes);
  void drop_all() noexcept;
  [[nodiscard]] cordma::task<void> conclude(std::shared_ptr<incoming> f);
  void conclude_if_due(const std::shared_ptr<incoming>& f);
  [[nodiscard]] cordma::result<void> open(incoming& f, target& into);
  [[nodiscard]] cordma::result<void> open_inplace(incoming& f, target& into) const;
  [[nodiscard]] cordma::result<void> mark_and_make_room(incoming& f, int fd) const;
  [[nodiscard]] cordma::result<void> begin_inplace(incoming& f, int fd,
                                                   const struct stat& before) const;
  [[nodiscard]] cordma::result<void> open_sidecar(incoming& f, target& into);
  [[nodiscard]] bool has_part(const incoming& f);
  [[nodiscard]] cordma::task<void> go_on(std::shared_ptr<incoming> f);
  [[nodiscard]] cordma::task<bool> compare_part(std::shared_ptr<incoming> f,
                                                std::vector<bool>* here);
  void keep_part(incoming& f, const std::vector<bool>& here);
  void say_want(const std::shared_ptr<incoming>& f);
  [[nodiscard]] cordma::result<void> make_room(incoming& f, int fd) const;
  void fail(incoming& f, const std::string& why);
  [[nodiscard]] cordma::result<void> publish(incoming& f, target& into,
                                             std::vector<std::string>& lost) const;
  void publish(incoming& f);
  void tell_published(incoming& f, std::vector<std::string> lost);
  void note_done();
  void forget(std::uint32_t number);

  // The work after all files are written, and its result.
  struct last_words {
    bool all_read = true;  // by the sender; else an unlisted file may still exist there
    std::uint64_t links = 0;
    std::uint64_t deleted = 0;
    std::vector<item> items;
    std::vector<problem> problems;
  };
  void finish_if_due();
  [[nodiscard]] cordma::task<void> finish();
  void keep_directories(last_words& said);
  void delete_others(last_words& said, const std::atomic<bool>& canceled);
  // With --delete: a directory that makes way for another entry.
  [[nodiscard]] bool may_make_way() const noexcept;
  void make_way(incoming& f, target& into) const;
  void make_way(const std::string& path);
  [[nodiscard]] bool can_make_way(const std::string& path);
  [[nodiscard]] std::string what_keeps(const std::string& path, std::vector<std::string>& gone);
  void make_way(const std::string& path, last_words& said);
  void tell_gone(std::vector<std::string> gone);
  [[nodiscard]] target::removal removal_here() const noexcept {
    return options_.dry_run ? target::removal::dry : target::removal::real;
  }
  void make_hard_links(last_words& said);
  void tell_not_owned();

  [[nodiscard]] bool was_wanted(std::uint32_t number) const noexcept;
  void offer_slots(std::size_t which);
  void offer_more_for(const entry& e);
  void credit(std::uint32_t lane, std::uint32_t slot);
  void use_slot(frame_kind kind, std::uint32_t lane, std::uint32_t slot);
  [[nodiscard]] std::span<std::byte> slot(std::uint32_t lane, std::uint32_t number) noexcept;
  void report(problem p);
  void tell(item::change what, const entry& e, std::uint16_t differs = 0);
  void tell(const item& i);
  void report_failed(const std::string& path, std::vector<std::string> sentences);
  [[nodiscard]] keep_options kept() const noexcept;
  [[nodiscard]] std::uint64_t chunks_of(const entry& e) const noexcept;
  [[nodiscard]] source_identity identity_of(const entry& e) const noexcept;

  cordma::Context& context_;
  cordma::Worker& worker_;
  file_ring& files_;
  crew crew_;
  cordma::semaphore comparing_;  // limits the files read for comparison
  std::vector<std::unique_ptr<lane>>& lanes_;
  pulse pulse_;
  target& target_;
  std::vector<std::optional<target>> targets_;  // one for each thread of the crew
  std::string only_name_;
  const filter& filter_;
  const transfer_options& options_;
  progress& progress_;
  const item_sink& tell_;

  pools pools_;
  std::uint32_t slots_ = 0;                // offered slots of each lane
  std::vector<std::vector<bool>> in_use_;  // slots in use, by lane
  std::deque<entry> entries_;
  std::unordered_map<std::uint32_t, std::shared_ptr<incoming>> open_;
  std::uint64_t open_chunks_ = 0;  // chunks of open files, including those already there
  std::vector<bool> wanted_;       // by number of the entry
  struct comparison {
    const entry* what = nullptr;
    struct stat now{};  // attributes of the local file
  };
  // Files with a pending comparison by the sender.
  std::unordered_map<std::uint32_t, comparison> compared_;
  int output_ = -1;
  asked asked_;
  std::set<std::string, std::less<>> new_directories_;
  std::map<std::string, std::uint32_t>
      closed_;  // directories opened for the transfer, and their final modes
  // -H: entry numbers of a further name and of its first name, and, by path, the files that may
  // have further names.
  struct further_name {
    std::uint32_t number = 0;
    std::uint32_t stands = 0;
  };
  std::vector<further_name> hard_links_;
  struct first_name {
    std::uint32_t contents = 0;  // number that the sender uses
    std::uint32_t stands = 0;    // the entry that represents it here: itself, or a further name
  };
  std::unordered_map<std::string_view, first_name> first_names_;
  std::unordered_set<std::string> passed_over_;  // by path
  std::set<std::string, std::less<>> failed_files_;
  bool not_all_read_ = false;  // the sender reported it
  std::vector<std::string> left_out_;
  std::size_t left_out_bytes_ = 0;
  bool all_listed_ = false;
  cordma::scope* scope_ = nullptr;
  manifest got_;
  outcome result_;
  ledger* ledger_ = nullptr;
  // The durable part in bytes plus entries, and its value in the last report to the client.
  std::uint64_t durable_ = 0;
  std::uint64_t durable_told_ = 0;
  std::vector<std::uint32_t> named_;  // named files since the last report
  bool finishing_ = false;
  bool finished_ = false;
  bool over_ = false;  // the sender's last frame has arrived
};

}  // namespace copy
