#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "cli/manual.h"

namespace addnorm::cli {
namespace {

/// Escapes text for roff: no character commands, and quotes and signs unchanged.
std::string roff_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\\':
        escaped += "\\e";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      default:
        escaped += c;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff_escape(text) + "\\fR";
}

/// Protects a command or a name from line breaks at its spaces and end.
std::string unbroken(std::string_view text) {
  std::string joined;
  for (const char c : bold(text)) joined += c == ' ' ? std::string("\\ ") : std::string(1, c);
  return joined;
}

/// Formats a row of a list: "  name  meaning", or "  one item".
std::string row(std::string_view line) {
  line.remove_prefix(line.find_first_not_of(' '));
  const std::size_t gap = line.find("  ");
  if (gap == line.npos) return ".IP \"\" 2\n" + unbroken(line) + '\n';
  const std::string_view meaning = line.substr(line.find_first_not_of(' ', gap));
  return ".TP 16\n" + unbroken(line.substr(0, gap)) + '\n' + roff_escape(meaning) + '\n';
}

/// Formats the end of a help text: paragraphs, which are filled; rows, which begin with two spaces;
/// and lines with columns, which stay unchanged.
std::string prose(const std::string& text) {
  enum Form { kNone, kFilled, kRows, kTable } form = kNone;
  std::string page;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Form now = line.empty()                           ? kNone
                     : line.starts_with("  ")               ? kRows
                     : line.find("  ") != std::string::npos ? kTable
                                                            : kFilled;
    if (now != form) {
      if (form == kTable) page += ".fi\n";
      if (form == kRows) page += ".PD\n";
      if ((now == kTable || now == kFilled) && !page.empty()) page += ".PP\n";
      if (now == kTable) page += ".nf\n";
      if (now == kRows) page += ".PD 0\n";
    }
    form = now;
    if (!line.empty()) page += form == kRows ? row(line) : roff_escape(line) + '\n';
  }
  if (form == kTable) page += ".fi\n";
  if (form == kRows) page += ".PD\n";
  return page;
}

template <typename Options>
std::string names_of(const Options& options) {
  std::vector<std::string> names;
  names.reserve(options.size());
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::ranges::sort(names);  // the set has no stable order
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string option_entry(const CLI::Option& option) {
  const bool positional = option.get_positional();
  std::string tag = bold(option.get_name(positional, !positional));
  std::string type = option.get_option_text();
  if (type.empty() && option.get_type_size() != 0) type = option.get_type_name();
  if (!type.empty()) tag += " \\fI" + roff_escape(type) + "\\fR";
  std::string meaning = option.get_description();
  if (option.get_required()) meaning += "; required";
  if (!option.get_needs().empty()) meaning += "; needs " + names_of(option.get_needs());
  if (!option.get_excludes().empty()) meaning += "; not with " + names_of(option.get_excludes());
  return ".TP\n" + tag + '\n' + roff_escape(meaning) + '\n';
}

std::string options_of(const CLI::App& app) {
  std::string entries;
  for (const CLI::Option* option : app.get_options({})) entries += option_entry(*option);
  return entries;
}

/// Returns "addnorm trace [OPTIONS] [VALUES...]".
std::string usage(const CLI::App& command) {
  const std::string name = command.get_parent()->get_name() + ' ' + command.get_name();
  const std::string line = CLI::Formatter().make_usage(&command, name);
  return roff_escape(line.substr(line.find(name), line.find('\n') - line.find(name)));
}

}  // namespace

std::string man_page(const CLI::App& program) {
  std::string description = program.get_description();
  description.pop_back();  // its full stop
  std::string synopsis, commands;
  for (const CLI::App* command : visible_commands(program)) {
    synopsis += (synopsis.empty() ? "" : ".br\n") + usage(*command) + '\n';
    commands += ".SS " + usage(*command) + '\n' + roff_escape(command->get_description()) + ".\n" +
                options_of(*command) + ".PP\n" + prose(command->get_footer());
  }
  return fmt::format(
      ".TH ADDNORM 1 \"\" \"{}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n{}"
      ".SH OPTIONS\n{}"
      ".SH COMMANDS\n{}"
      ".SH NOTES\n{}",
      program.version(), program.get_name(), roff_escape(description), synopsis,
      options_of(program), commands, prose(program.get_footer()));
}

}  // namespace addnorm::cli
