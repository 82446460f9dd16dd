#include "options.hpp"

#include "../../support/command_line.hpp"
#include "../../support/printable.hpp"
#include "../protocol/version.hpp"
#include "../tree/filter.hpp"

#include <cordma/runtime/units.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

#include <sys/stat.h>

namespace copy {
namespace {

struct texts {
  std::vector<std::string> paths;
  std::string bwlimit;
  std::string memory = "16M";
  std::string chunk = "512k";
  std::string transport = "auto";
  std::string wait = "adaptive";
  std::string reconnect = "60s";
  std::string token_file;
  std::uint16_t port = default_port;
  std::vector<std::string> rules;
  std::string files_from;
  bool from0 = false;
  bool archive = false;
  bool as_it_is = false;
};

constexpr const char* footer =
    "A source that ends with '/' is what is in it; any other is itself, in the target. A target "
    "that is\n"
    "no directory, and does not end with '/', is what one file will be called. HOST:MODULE/PATH is "
    "a\n"
    "place in a module of the cordma-cpd at HOST.\n\n"
    "Examples\n"
    "  cordma-cp big.iso backup/                     one file, into a directory\n"
    "  cordma-cp -a src/ host:work/src/              a tree, to a daemon, with all that is kept of "
    "it\n"
    "  cordma-cp -a --delete host:work/src/ src/     back, and what is not there goes here, too\n"
    "  cordma-cp -an --exclude '*.o' src/ copy/      what would be done\n"
    "  cordma-cp -a --tls src/ host:work/src/        encrypted on its way\n"
    "  tar c src | cordma-cp - host:work/src.tar     standard input, and with - as the target "
    "output\n\n"
    "Ends with 0, or as rsync does: 1 usage, 23 some files are not there, 24 some vanished, 20 "
    "Ctrl-C,\n"
    "SIGTERM or SIGHUP, 25 --max-delete, 30 --timeout, 10 no connection. A lost connection ends it "
    "only\n"
    "after --reconnect. A file of 8 MiB and more that was cut off goes on where it was when the "
    "same\n"
    "command is run again; what may have changed of it is compared first. In --json a byte that "
    "is no\n"
    "UTF-8 is \\#377, in octal.";

// Returns the lines of a file, or of standard input, with rsync's rules: they end with '\n' or
// '\r', or with -0 with '\0'. Empty lines are skipped, and without -0 those that begin with ';' or
// '#'.
std::vector<std::string> lines_of(const std::string& file, bool from0) {
  std::ifstream opened;
  if (file != "-") opened.open(file);
  std::istream& in = file == "-" ? std::cin : opened;
  int why = in ? 0 : errno;
  std::error_code unknown;
  if (file != "-" && std::filesystem::is_directory(file, unknown)) why = EISDIR;
  if (why != 0) throw std::invalid_argument(file + ": " + std::strerror(why));
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const std::string_view ends = from0 ? std::string_view("\0", 1) : std::string_view("\r\n");
  std::vector<std::string> lines;
  for (std::string_view rest = all; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find_first_of(ends));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const bool is_comment = !from0 && (line.starts_with(';') || line.starts_with('#'));
    if (!line.empty() && !is_comment) lines.emplace_back(line);
  }
  return lines;
}

// As with rsync, an explicit "+ " or "- " takes precedence, and "!" removes all rules so far.
void add_rule(const std::string& rule, const char* sign, std::vector<std::string>& into) {
  if (rule == "!") return into.clear();
  const bool says = rule.starts_with("- ") || rule.starts_with("+ ");
  into.push_back(says ? rule : std::string(sign) + " " + rule);
}

// Returns a path relative to the source, without "." and empty parts.
std::string tidied(std::string_view name, const transfer_options& o) {
  const std::string_view given = name;
  std::string tidy;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(part.size() + 1, name.size()));
    if (part.empty() || part == ".") continue;
    if (!tidy.empty()) tidy += '/';
    tidy += part;
  }
  const auto refuse = [given](const char* why) {
    throw std::invalid_argument("--files-from: \"" + support::printable(given) + "\" " + why);
  };
  if (tidy.empty()) {
    refuse("is the source itself, which comes without --files-from (find has -mindepth 1)");
  }
  if (!stays_inside(tidy)) {
    refuse("is no path below the source: without \"..\", and shorter than 4096");
  }
  const bool is_what_is_in_it = given.ends_with('/') || given.ends_with("/.");
  if (!o.recursive && is_what_is_in_it) {
    refuse("is what is in a directory, which comes with -r; without it list each name");
  }
  return tidy;
}

// Returns each name once. A name below another one is redundant, except if a rule excludes a
// directory between them: that is an error.
std::vector<std::string> list_of(const texts& t, const transfer_options& o) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(t.files_from, t.from0)) names.insert(tidied(line, o));
  const filter chosen = filter_of(t.rules);
  // An excluded directory above a listed entry is sent only as its parent.
  std::set<std::string> seen;
  std::set<std::string> leading;
  for (const std::string& name : names) {
    for (std::size_t end = name.find('/'); o.recursive && end != std::string::npos;
         end = name.find('/', end + 1)) {
      const std::string above = name.substr(0, end);
      if (seen.insert(above).second && chosen.excludes(above, true)) leading.insert(above);
    }
  }
  for (const std::string& above : leading) names.erase(above);
  for (const std::string& name : names) {
    const auto never = [&] { return chosen.excludes(name, true) && chosen.excludes(name, false); };
    std::string with;  // which is then a directory
    for (std::size_t end = name.find('/'); o.recursive && end != std::string::npos;
         end = name.find('/', end + 1)) {
      const std::string above = name.substr(0, end);
      if (with.empty() && names.contains(above)) with = above;
      if (!with.empty() && leading.contains(above) && !never()) {
        throw std::invalid_argument(
            "--files-from: " + support::printable(name) + " is in " + support::printable(with) +
            ", which is listed as well, but excluded with " + support::printable(above) +
            ": list what else is wanted of " + support::printable(with));
      }
    }
  }
  return {names.begin(), names.end()};
}

void read_list(request& r, const texts& t) {
  place& from = r.sources.front();
  if (r.sources.size() != 1 || from.is_standard_stream()) {
    throw std::invalid_argument("--files-from: what is listed is below one source, a directory");
  }
  if (r.options.delete_others) {
    throw std::invalid_argument("--files-from has no --delete: what is not listed is not known");
  }
  from.ends_with_slash = true;
  r.options.listed = true;
  r.listed = list_of(t, r.options);
  std::size_t bytes = 0;
  for (const std::string& name : r.listed) bytes += name.size() + 2;
  // the other fields of the request have the rest
  constexpr std::size_t most = longest_payload / 2;
  if (!from.here() && bytes > most) {
    throw std::invalid_argument("--files-from: a daemon takes lists of up to " +
                                std::to_string(most) + " bytes: split it");
  }
}

void declare_selection(CLI::App& app, transfer_options& o, texts& t) {
  app.add_flag("-r,--recursive", o.recursive, "directories, with all that is in them");
  app.add_flag("-a,--archive", t.archive, "as -rlptgoD");
  app.add_flag("-l,--links", o.links, "symlinks as symlinks; else they are left out");
  app.add_flag("-L,--copy-links", o.follow, "symlinks as what they lead to");
  app.add_flag("-H,--hard-links", o.hard_links, "several names of one file stay that");
  app.add_flag("--devices", o.devices,
               "devices as such, as far as one may; else they are left out");
  app.add_flag("--specials", o.specials, "FIFOs and sockets as such; else they are left out");
  app.add_flag_callback("-D", [&o] { o.devices = o.specials = true; }, "as --devices --specials");
  app.add_flag("-p,--perms", o.mode, "keep permissions");
  app.add_flag("-t,--times", o.times, "keep times, by which the same file is known next time");
  app.add_flag("-o,--owner", o.owner,
               "keep the owner; where one may not, that is said. -a asks for it "
               "only where one may");
  app.add_flag("-g,--group", o.group, "keep the group, likewise");
  app.add_flag("-X,--xattrs,-A,--acls", o.attributes, "keep extended attributes, ACLs among them");
}

// Options that choose which of the selected files are transferred, and how.
void declare_taking(CLI::App& app, transfer_options& o, texts& t) {
  app.add_flag("-n,--dry-run", o.dry_run, "say what would be done, and do nothing");
  app.add_flag("-c,--checksum", o.checksum,
               "compare what has the same size, whatever its time: by XXH3, 128 bits");
  app.add_flag("-I,--ignore-times", o.ignore_times, "copy what has the same size and time, too");
  app.add_flag("--delete", o.delete_others, "remove what is in the target and not in the source");
  const auto most = [&o](const std::int64_t& n) {
    o.most_deleted = n < 0 ? 0 : static_cast<std::uint64_t>(n);
  };
  app.add_option_function<std::int64_t>("--max-delete", most,
                                        "and no more than so many of it: 25 then; below 0 is 0")
      ->type_name("N");
  app.add_flag("-u,--update", o.update, "no file that is newer in the target");
  app.add_flag("--size-only", o.size_only, "take a file of the same size for the same");
  app.add_flag("--existing", o.existing, "nothing that is not in the target yet");
  app.add_flag("--ignore-existing", o.ignore_existing, "nothing that is in the target already");
  app.add_flag("-x,--one-file-system", o.one_file_system, "not what is mounted in a source");
  app.add_flag(
      "--inplace", o.inplace,
      "write into the file that is there: no resuming, no way back; until it is whole it ends "
      "with a line that says so, by which the next run knows it");
  app.add_flag("--fsync", o.sync, "to the disk, before a file gets its name");
  app.add_flag(
      "-S,--sparse", o.sparse,
      "zeros become holes, where there are 4 KiB of them; holes of whole chunks stay holes "
      "anyway");
  app.add_flag("--partial,-h,--human-readable,-W,--whole-file", t.as_it_is,
               "as it is anyway: what is cut off goes on");
  app.add_flag("!--no-resume", o.resume, "begin anew what was cut off");
  app.add_flag("!--no-direct", o.direct, "long files by way of the page cache, too");
}

void declare_rules(CLI::App& app, texts& t) {
  const auto rule = [&t](const char* sign) {
    return [&t, sign](const std::vector<std::string>& patterns) {
      for (const std::string& p : patterns) add_rule(p, sign, t.rules);
      return true;
    };
  };
  for (const auto& [name, sign, what] :
       {std::tuple{"--exclude", "-", "leave out what matches; the first rule that matches decides"},
        std::tuple{"--include", "+", "keep what matches"}}) {
    app.add_option(name, rule(sign), what)
        ->type_name("PATTERN")
        ->expected(1)
        ->allow_extra_args(false)
        ->trigger_on_parse();
  }
  app.add_flag("-0,--from0", t.from0,
               "lists and rules, in files named behind it, have a 0 behind each")
      ->trigger_on_parse();
  for (const auto& [name, sign] : {std::pair{"--exclude-from", "-"}, {"--include-from", "+"}}) {
    const auto read = [&t, sign](const std::vector<std::string>& files) {
      for (const std::string& f : files) {
        for (const std::string& line : lines_of(f, t.from0)) add_rule(line, sign, t.rules);
      }
      return true;
    };
    app.add_option(name, read, "the same, one in each line; - is standard input")
        ->type_name("FILE")
        ->expected(1)
        ->allow_extra_args(false)
        ->trigger_on_parse();
  }
  app.add_option(
         "--files-from", t.files_from,
         "of the one source only what is listed there, one in each line, and what leads to it; - "
         "is standard input. -a means no -r then")
      ->type_name("FILE");
  app.add_flag_callback("-z,--compress",
                        [] {
                          throw CLI::ValidationError(
                              "there is no compression: chunks go by remote writes as they are "
                              "read; where a line is "
                              "slow, send an archive: tar cz SOURCE | cordma-cp - TARGET.tgz");
                        })
      ->group("");
}

void declare_ways(CLI::App& app, request& r, texts& t) {
  app.add_option("--transport", t.transport, "how to reach the other side")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}));
  app.add_option("--wait", t.wait, "for what comes: polling, event or adaptive")
      ->check(CLI::IsMember({"polling", "event", "adaptive"}));
  app.add_option("--lanes", r.lanes, "connections")->check(CLI::Range(1U, most_lanes));
  app.add_option("--memory", t.memory, "of each side, for what is on its way")->type_name("BYTES");
  app.add_option("--chunk", t.chunk, "64k to 16M, a multiple of 64k")->type_name("BYTES");
  app.add_option("--bwlimit", t.bwlimit,
                 "a second, at most: KiB, as with rsync, or with k, M, G: 1.5M")
      ->type_name("RATE");
  app.add_option("--timeout", r.options.silence_s,
                 "ends where nothing is heard of the other side for so long; 0: it never does")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, longest_silence_s));
  app.add_option("--reconnect", t.reconnect,
                 "reconnect after a lost connection; give up after this time without progress, as "
                 "60s (the default), 2m, 1h; off: give up at once")
      ->type_name("DURATION|off");
  app.add_option("--port", t.port, "of cordma-cpd")->check(CLI::Range(1, 65535));
  app.add_option("--token-file", t.token_file,
                 "has the token of the module; CORDMA_CP_TOKEN does as well")
      ->type_name("FILE");
  CLI::Option* const tls = app.add_flag(
      "--tls", r.tls, "encrypt all of it; the server must have a certificate for HOST. Over tcp");
  app.add_option("--tls-ca", r.trusted,
                 "certificates to trust, in PEM; without it those of the system")
      ->type_name("FILE")
      ->needs(tls);
  app.add_option("--flip", r.flip_every, "one wrong bit in every Nth chunk that goes out")
      ->check(CLI::NonNegativeNumber)
      ->group("");
  app.add_flag("-v,--verbose", r.verbose, "one line for each file");
  app.add_flag("-i,--itemize-changes", r.itemize,
               "likewise, with a sign for all that was different, as rsync has them");
  app.add_flag("-q,--quiet", r.quiet, "errors only");
  app.add_flag("--progress,-P", r.progress, "show it also where no terminal is");
  app.add_flag("--stats", r.stats, "say what it took");
  app.add_option("--json", r.json, "a summary for machines; - is standard output")
      ->type_name("FILE");
}

// Sets the options that `-a` stands for, which CLI11 cannot express.
void unfold_archive(transfer_options& o, const texts& t) {
  o.recursive = o.recursive || t.files_from.empty();
  o.owner_if_may = !o.owner;
  o.group_if_may = !o.group;
  o.links = o.mode = o.times = o.group = o.owner = o.devices = o.specials = true;
}

std::uint64_t size_of(const char* option, const std::string& text) {
  const cordma::result<std::uint64_t> size = cordma::parse_size(text);
  if (!size) throw std::invalid_argument(std::string(option) + ": " + size.why().message());
  return size.value();
}

// Rates as with rsync: in KiB without a unit, with an optional fraction.
std::uint64_t rate_of(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = digits == text.size() ? "k" : text.substr(digits);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + digits, number);
  const bool is_number = status == std::errc{} && end == text.data() + digits;
  const cordma::result<std::uint64_t> one = cordma::parse_size("1" + unit);
  constexpr double most = 1e18;
  const double bytes = one ? number * static_cast<double>(one.value()) : 0;
  if (!is_number || !one || bytes > most) {
    throw std::invalid_argument("--bwlimit: \"" + text +
                                "\" is no rate: a number, of KiB or with k, M, G or T behind it");
  }
  return number > 0 ? std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes)) : 0;
}

// A number without a unit is in seconds; "m" means minutes.
cordma::duration reconnect_of(const std::string& text) {
  constexpr auto longest = std::chrono::seconds(longest_silence_s);
  if (text == "off") return cordma::duration::zero();
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
  const bool is_minutes = text.size() > 1 && text.ends_with('m');
  const cordma::result<cordma::duration> time = cordma::parse_duration(is_number    ? text + "s"
                                                                       : is_minutes ? text + "in"
                                                                                    : text);
  if (!time || *time > longest) {
    throw std::invalid_argument("--reconnect: \"" + text + "\" is no time up to " +
                                std::to_string(longest_silence_s) +
                                " seconds: use a number of seconds, or one with s, m or h; or off");
  }
  return *time;
}

void demand_tcp(request& r) {
  using cordma::transport::kind;
  if (r.sources.front().here() && r.target.here()) {
    throw std::invalid_argument("--tls is for a HOST: from here to here nothing is on a network");
  }
  if (r.transport.value_or(kind::tcp) != kind::tcp) {
    throw std::invalid_argument("--tls is for tcp: nothing encrypts what goes over " +
                                std::string(cordma::transport::name(*r.transport)));
  }
  r.transport = kind::tcp;
}

// As with rsync a file replaces an existing one of its name; but not a device or pipe, not even
// through a symlink.
void demand_place(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0 || S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)) return;
  const bool is_device = S_ISCHR(s.st_mode) || S_ISBLK(s.st_mode);
  throw std::invalid_argument(path + (is_device ? " is a device" : " is a FIFO or socket") +
                              ", and would be replaced by a file: - > " + path +
                              " writes into it, or remove it first");
}

// Checks standard input as a source, and standard output as the target.
void check_streams(const request& r) {
  const bool input = std::ranges::any_of(r.sources, &place::is_standard_stream);
  const bool output = r.target.is_standard_stream();
  if (input && r.sources.size() != 1) {
    throw std::invalid_argument("- (standard input) is the only source, or none");
  }
  if (output && (r.sources.size() != 1 || r.sources.front().ends_with_slash)) {
    throw std::invalid_argument("only one file can go to - (standard output)");
  }
  if ((input || output) && r.options.delete_others) {
    throw std::invalid_argument("--delete is for trees, not for -");
  }
  if (output && r.json == "-") {
    throw std::invalid_argument("--json - and the file cannot both go to standard output");
  }
}

// The request is sent in one frame.
void check_lengths(const request& r) {
  constexpr std::size_t most = longest_payload - 4096;
  std::size_t bytes = 0;
  const auto add = [&bytes](const std::string& text) {
    bytes += text.size() + 2;
    if (text.size() <= longest_text) return;
    throw std::invalid_argument("\"" + text.substr(0, 32) + "...\" is longer than " +
                                std::to_string(longest_text) + " bytes");
  };
  std::ranges::for_each(r.rules, add);
  if (!r.sources.front().here()) {
    std::ranges::for_each(r.listed, add);
    for (const place& p : r.sources) add(p.module + p.path);
  }
  add(r.target.module + r.target.path);
  if (bytes <= most && r.rules.size() <= most_rules) return;
  throw std::invalid_argument("--exclude, --include and the names that were given: no more than " +
                              std::to_string(most_rules) + " rules, and " + std::to_string(most) +
                              " bytes of both, are taken");
}

void finish(request& r, const texts& t) {
  if (t.archive) unfold_archive(r.options, t);
  r.rules = t.rules;
  (void)filter_of(t.rules);  // reports an invalid pattern before the transfer begins
  r.options.items = r.verbose != 0 || r.options.dry_run || r.itemize;
  r.options.bytes_per_s = t.bwlimit.empty() ? 0 : rate_of(t.bwlimit);
  r.options.memory_bytes = size_of("--memory", t.memory);
  const std::uint64_t chunk = size_of("--chunk", t.chunk);
  if (chunk < smallest_chunk || chunk > largest_chunk || chunk % smallest_chunk != 0) {
    throw std::invalid_argument("--chunk: from 64k to 16M, a multiple of 64k");
  }
  r.options.chunk_bytes = static_cast<std::uint32_t>(chunk);
  if (t.transport != "auto") r.transport = cordma::parse_transport(t.transport).value();
  r.wait = cordma::parse_wait_mode(t.wait).value();
  r.reconnect = reconnect_of(t.reconnect);
  for (const std::string& p : t.paths) r.sources.push_back(parse_place(p, t.port));
  r.target = std::move(r.sources.back());
  r.sources.pop_back();
  if (!t.files_from.empty()) read_list(r, t);
  const place& first = r.sources.front();
  if (r.options.follow && !first.here()) {
    throw std::invalid_argument("-L is for sources that are here: a daemon follows no symlinks");
  }
  if (r.options.follow && r.options.attributes) {
    throw std::invalid_argument("-L has no -X, nor -A: attributes are those of symlinks");
  }
  for (const place& s : r.sources) {
    if (s.host != first.host || s.module != first.module || s.port != first.port) {
      throw std::invalid_argument("sources are all here, or all in one module: " + s.text());
    }
  }
  if (!first.here() && !r.target.here()) {
    throw std::invalid_argument(
        "source and target are both elsewhere: run cordma-cp on one of them");
  }
  if (r.options.delete_others && !r.options.recursive) {
    throw std::invalid_argument("--delete needs -r (or -a)");
  }
  check_streams(r);
  check_lengths(r);
  if (r.options.inplace) r.options.resume = false;
  if (r.tls) demand_tcp(r);
  r.token = support::read_token(t.token_file, "CORDMA_CP_TOKEN");
  struct stat s{};
  const auto look = r.options.follow ? ::stat : ::lstat;
  const bool is_sent = !first.here() || first.is_standard_stream();
  const bool is_missing = !is_sent && look(first.path.c_str(), &s) != 0;
  // A missing source is reported as such, without a statement about the target.
  const bool file = r.sources.size() == 1 && !first.ends_with_slash &&
                    (is_sent || is_missing || !S_ISDIR(s.st_mode));
  r.options.directory = !file || r.target.ends_with_slash;
  if (file && !is_missing && r.target.here() && !r.target.is_standard_stream())
    demand_place(r.target.path);
}

}  // namespace

namespace {

// CLI11 reads "[a,b]" as a list: such a name is rewritten. CLI11 also takes the argument after
// "--option=" as its value: this is refused.
std::vector<std::string> quoted(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  bool are_options = true;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string& w = words[i];
    const bool is_pattern = words[i - 1] == "--exclude" || words[i - 1] == "--include";
    are_options = are_options && (w != "--" || is_pattern);
    if (are_options && !is_pattern && w.starts_with("--") && w.find('=') == w.size() - 1) {
      throw std::invalid_argument(w + " needs a value");
    }
    if (!w.starts_with('[') || !w.ends_with(']') || is_pattern) continue;
    const std::size_t host = w.find("]:");
    const bool is_remote = host != std::string::npos && w.find('/') > host;
    w = is_remote ? "cordma://" + w.substr(0, host + 1) + '/' + w.substr(host + 2) : "./" + w;
  }
  return words;
}

}  // namespace

std::optional<int> parse(int argc, char** argv, request& into) {
  CLI::App app(
      "Copies files and trees: here, or to and from a cordma-cpd, by RDMA, shared memory or TCP.",
      "cordma-cp");
  app.set_version_flag("--version", version_text("cordma-cp"), "print the version");
  app.set_help_flag("--help", "this text");  // -h is rsync's option for human-readable sizes
  texts t;
  app.add_option("SOURCE... TARGET", t.paths, "[HOST:MODULE/]PATH")->required()->expected(2, -1);
  declare_selection(app, into.options, t);
  declare_taking(app, into.options, t);
  declare_rules(app, t);
  declare_ways(app, into, t);
  app.footer(footer);
  try {
    std::vector<std::string> words = quoted(argc, argv);
    std::vector<char*> quoted_argv;
    for (std::string& w : words) quoted_argv.push_back(w.data());
    const auto count = static_cast<int>(quoted_argv.size());
    if (const std::optional<int> ended = support::parse(app, count, quoted_argv.data()))
      return *ended == 0 ? 0 : 1;
    finish(into, t);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-cp: %s\n", e.what());
    return static_cast<int>(exit_code::usage);
  }
  return std::nullopt;
}

}  // namespace copy
