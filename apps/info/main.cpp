// cordma-info: shows the transports of cordma on this machine, and the reasons for its choice.
#include "facts.hpp"
#include "report.hpp"

#include "../support/command_line.hpp"
#include "../support/standard_output.hpp"

namespace {

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return support::finish_output("cordma-info", 0);
}

std::string devices_text() {
  const auto found = cordma::query_devices();
  // The build lacks the support, not the machine.
  if (found.code() == cordma::errc::not_supported) return found.why().message() + "\n";
  std::string text;
  for (const cordma::device_attributes& d : found.value()) text += info::report_of(d);
  return text.empty() ? info::no_device_text() + "\n" : text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows transports, devices, limits and the configuration in effect.", "cordma-info");
  bool json = false;
  bool brief = false;
  bool devices = false;
  bool version = false;
  app.add_flag("--json", json, "as JSON");
  app.add_flag("--brief", brief, "three lines, and a note where the environment is odd")
      ->excludes("--json");
  app.add_flag("--devices", devices, "RDMA devices with ports, GIDs and limits, as ibv_devinfo -v")
      ->excludes("--json")
      ->excludes("--brief");
  app.add_flag("--version", version, "print the version");
  if (const std::optional<int> ended = support::parse(app, argc, argv)) return *ended;
  try {
    if (version) {
      return print("cordma-info " CORDMA_VERSION "\n");
    }
    if (devices) return print(devices_text());
    const info::facts f = info::collect();
    const std::string text = json    ? info::to_json(f)
                             : brief ? info::to_brief_text(f)
                                     : info::to_text(f);
    return print(text);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-info: %s\n", e.what());
    return 1;
  }
}
