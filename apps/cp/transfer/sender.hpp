// The side that reads files.
#pragma once

#include "../files/crew.hpp"
#include "../files/digest.hpp"
#include "../files/file_ring.hpp"
#include "../protocol/lane.hpp"
#include "../protocol/pulse.hpp"
#include "../protocol/wire.hpp"
#include "../tree/scan.hpp"
#include "ledger.hpp"
#include "pools.hpp"
#include "progress.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/stop.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace copy {

// The result of a transfer, as known to either side at its end.
struct outcome {
  tally done;
  problem_log problems;
  std::vector<item> items;
};
using item_sink = std::function<void(const item&)>;

// Sends the files that a scanner finds and the receiver wants. Bound to the thread of its Worker.
class sender {
 public:
  // REQUIRES: all arguments outlive the sender. `lanes` are connected, and have exchanged only the
  // handshake.
  sender(cordma::Context& context, cordma::Worker& worker, file_ring& files,
         std::vector<std::unique_ptr<lane>>& lanes, scanner& sources,
         const transfer_options& options, progress& shown, const item_sink& tell);
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;
  ~sender();

  // Runs the transfer to its end. Throws cordma::error if the connection breaks or the receiver
  // violates the protocol. An error of a file is a problem, and does not throw.
  [[nodiscard]] cordma::task<outcome> run();

  // For tests: one of every `chunks` chunks and bundles is sent with a wrong bit. 0: none.
  void flip_every(std::uint64_t chunks) noexcept { flip_every_ = chunks; }
  // If the receiver acknowledges: its progress is noted in `done`, and entries of files finished
  // there are marked. REQUIRES: before run(); `done` outlives the sender.
  void keep_in(ledger& done) noexcept { ledger_ = &done; }

 private:
  struct outgoing;  // a file that is being read
  // A free slot at the receiver.
  struct place {
    std::uint32_t lane = 0;
    std::uint32_t slot = 0;
  };
  struct job {
    want what;
    // One damaged chunk to send again, instead of the file.
    bool again = false;
    std::uint64_t index = 0;
    // If set, compares the file with this digest, and sends nothing of it.
    std::optional<file_digest> digest{};
  };
  struct small_file {
    std::uint32_t file = 0;
    std::uint32_t bytes = 0;
    std::shared_ptr<outgoing> source;
    int error = 0;  // errno
  };
  using bundle = std::vector<small_file>;

  [[nodiscard]] cordma::task<void> list();
  [[nodiscard]] cordma::task<void> read_lane(std::uint32_t number);
  void take(frame_reader& in, std::uint32_t lane);
  void take_wants(frame_reader& in);
  void take_memory(frame_reader& in, std::uint32_t lane);
  void take_credit(frame_reader& in, std::uint32_t lane);
  void take_again(frame_reader& in);
  void take_compare(frame_reader& in);
  void take_finished(frame_reader& in);
  void take_done(frame_reader& in);
  void note_found(entry& e);
  [[nodiscard]] const entry& file_of(frame_reader& in, std::uint32_t number) const;

  [[nodiscard]] cordma::task<void> feed_until_finished();
  [[nodiscard]] cordma::task<void> feed();
  [[nodiscard]] cordma::task<void> send_file(want w);
  [[nodiscard]] cordma::task<void> send_stream(std::uint32_t file);
  [[nodiscard]] cordma::task<void> start_compare(std::uint32_t file, file_digest theirs);
  [[nodiscard]] cordma::task<void> compare(std::uint32_t file, cordma::unique_fd fd,
                                           file_digest theirs);
  [[nodiscard]] cordma::task<void> send_again(std::uint32_t file, std::uint64_t index);
  [[nodiscard]] cordma::task<void> start_chunk(std::shared_ptr<outgoing> f, std::uint64_t index);
  [[nodiscard]] cordma::task<void> send_chunk(std::shared_ptr<outgoing> f, std::uint64_t index,
                                              place to, cordma::Slice buffer);
  [[nodiscard]] cordma::task<void> put_chunk(chunk_frame c, std::uint32_t lane,
                                             cordma::Slice buffer);
  void send_hole(outgoing& f, std::uint64_t index);
  void say_hole(const outgoing& f, std::uint64_t index);
  void add_small(bundle& b, std::uint32_t file);
  [[nodiscard]] cordma::task<void> start_bundle(bundle b);
  [[nodiscard]] cordma::task<void> open_all(bundle* b);
  [[nodiscard]] int error_of(const small_file& s, const cordma::result<int>& got) const noexcept;
  [[nodiscard]] cordma::task<void> read_all(bundle* b, std::span<std::byte> into);
  [[nodiscard]] cordma::task<void> send_bundle(bundle b, place to, cordma::Slice buffer);
  [[nodiscard]] cordma::task<int> read_chunk(std::shared_ptr<outgoing> f, std::span<std::byte> into,
                                             std::uint64_t offset);
  [[nodiscard]] cordma::task<int> read_whole(int fd, std::span<std::byte> into,
                                             std::uint64_t offset);
  [[nodiscard]] slot_write put(place to, const cordma::Slice& bytes);
  [[nodiscard]] cordma::task<place> free_place();
  [[nodiscard]] cordma::task<cordma::Slice> free_buffer();
  void make_buffers(std::size_t which);
  [[nodiscard]] std::uint32_t slots_of(std::uint32_t lane) const noexcept;
  void give_back(const cordma::Slice& buffer);
  void give_back(place p);
  [[nodiscard]] cordma::task<void> pace(std::uint64_t bytes);

  [[nodiscard]] std::shared_ptr<outgoing> open(std::uint32_t file);
  void conclude(outgoing& f);
  void end_file(std::uint32_t file, file_end::how how, const std::string& why);
  void answered(std::uint32_t file);
  [[nodiscard]] std::uint64_t chunks_of(const entry& e) const noexcept;
  [[nodiscard]] std::uint32_t bytes_of(const entry& e, std::uint64_t index) const noexcept;

  cordma::Context& context_;
  cordma::Worker& worker_;
  file_ring& files_;
  crew walker_;  // one thread, for the listing
  crew crew_;
  cordma::semaphore comparing_;  // limits the files open for comparison
  std::vector<std::unique_ptr<lane>>& lanes_;
  pulse pulse_;
  scanner& sources_;
  const transfer_options& options_;
  progress& progress_;
  const item_sink& tell_;

  std::deque<entry> entries_;  // by number
  bool all_listed_ = false;
  // By number. An answered file has been sent completely; only damaged chunks are sent again.
  enum class wanted : unsigned char { no, yes, answered };
  std::vector<wanted> wanted_;
  std::vector<bool> compared_;  // by number
  std::uint64_t unanswered_ = 0;
  std::deque<job> jobs_;
  cordma::auto_event job_here_;
  // Memory of each lane; slots are numbered across its parts.
  std::vector<std::vector<slot_memory>> memory_;
  std::vector<std::vector<bool>> is_free_;  // slots of each lane
  std::deque<place> free_;                  // free slots at the receiver
  cordma::auto_event place_here_;
  pools pools_;
  std::vector<cordma::Slice> buffers_;  // free buffers of the pools
  cordma::auto_event buffer_here_;
  cordma::scope* scope_ = nullptr;
  cordma::time_point next_{};  // with a rate limit: when the next bytes may be sent
  manifest sent_;
  std::uint64_t flip_every_ = 0;
  std::uint64_t put_ = 0;  // chunks and bundles sent
  outcome result_;
  ledger* ledger_ = nullptr;
  bool finished_ = false;
  std::stop_source enough_;  // stop is requested when `finished_` is set
  const std::size_t most_open_;
  std::size_t open_ = 0;  // open files
  cordma::auto_event closed_here_;
};

}  // namespace copy
