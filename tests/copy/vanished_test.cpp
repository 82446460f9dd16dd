// --delete if some of the source could not be read.
#include "hostile.hpp"

using namespace copy;
using namespace copy::test;

namespace {

task<void> say_when_wanted(villain& v) {
  const frames head = listed({directory_entry("."), file_entry("gone", 4)});
  co_await v.say(head);
  co_await v.hear(frame_kind::wants);
  const frames rest = v.told;
  co_await v.say(rest);
  co_await v.hear(frame_kind::finished);
  const frames end = number_frame(frame_kind::all_sent, 0);
  co_await v.say(end);
  v.finish();
}

// True if an entry of the target that is not in the source stays.
bool extra_stays(const frames& told, bool& deleted_nothing) {
  const temporary_tree here;
  here.file("extra");
  here.file("gone", "before");
  transfer_options o = usual_options();
  o.delete_others = true;
  const ending e =
      attack_receiver(cordma::transport::kind::shm, here.root(), {say_when_wanted, told}, o);
  INFO(text_of(e));
  CHECK(std::filesystem::exists(here.at("gone")));  // it is in the list
  deleted_nothing = e.names("nothing is deleted");
  return std::filesystem::exists(here.at("extra"));
}

}  // namespace

TEST_CASE(
    "a file that has vanished or changed keeps nothing from being deleted; one that could not be "
    "read does") {
  bool nothing = false;
  for (const file_end::how how : {file_end::how::vanished, file_end::how::changed}) {
    CHECK_FALSE(extra_stays(encoded(file_end{1, how, "it is another one"}), nothing));
    CHECK_FALSE(nothing);
  }
  CHECK(extra_stays(encoded(file_end{1, file_end::how::failed, "Permission denied"}), nothing));
  CHECK(nothing);
}
