#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/find_named.h"
#include "cli/command.h"
#include "report/placement_text.h"

namespace addnorm::cli {
namespace {

constexpr const char* kPlacementsMeaning =
    R"(Where residual connections and norms stand, for every placement that --placement takes. z is what a
sublayer F reads of the stream, f what it computes, x' the stream behind it. A stream of several
lanes X is read by a, carried by A and written by b. l is a layer of N, counted from 1; "learned, 1"
begins with 1. Names can be put together: post/pre is post around attention and pre around
feed-forward; post:3+pre is 3 layers of post and the rest pre.)";

/// A name and its explanation.
struct Entry {
  std::string_view name;
  std::string text;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const Placement& p : placements()) all.push_back({p.name, report::placement_text(p)});
  for (const Mixture& m : mixtures()) all.push_back({m.name, report::mixture_text(m)});
  return all;
}

}  // namespace

Command placements_command(CLI::App& program) {
  const auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* app =
      program.add_subcommand("placements", "List where residual connections and norms can stand");
  app->footer(kPlacementsMeaning);
  app->add_option("NAME", *names, "which ones; all if none is named");
  return {app, [names] {
            const std::vector<Entry> all = entries();
            std::vector<Entry> chosen = names->empty() ? all : std::vector<Entry>();
            for (const std::string& name : *names) {
              chosen.push_back(find_named(std::span<const Entry>(all), "placement", name,
                                          [](const Entry& entry) { return entry.name; }));
            }
            for (const Entry& entry : chosen) std::fputs(entry.text.c_str(), stdout);
            return kDone;
          }};
}

}  // namespace addnorm::cli
