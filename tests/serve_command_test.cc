// `addnorm serve`: the files that it sends, the clients that it answers, and its robustness to any
// request.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "io/file.h"
#include "support/http.h"
#include "support/program.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::AnyOf;
using testing::become_program;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using ::testing::Not;
using testing::split;
using ::testing::StartsWith;
using testing::wait_for;
using Json = nlohmann::ordered_json;

using ServeTest = testing::ProgramTest;

/// `addnorm serve` of a folder on a free port, until the end of the test.
class Server {
 public:
  explicit Server(const fs::path& folder, const std::string& flags = "") {
    std::array<int, 2> pipe;
    EXPECT_EQ(::pipe(pipe.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const rlimit stack{kStackBytes, kStackBytes};  // also of its threads
      ::setrlimit(RLIMIT_STACK, &stack);
      become_program(folder, split("serve --folder . --port 0 " + flags), pipe[1], 2);
    }
    ::close(pipe[1]);
    std::string line;
    for (char c = 0; ::read(pipe[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(pipe[0]);
    const std::string before = "http://127.0.0.1:";
    const std::size_t at = line.find(before);
    EXPECT_NE(at, std::string::npos) << line;
    if (at != std::string::npos) port_ = std::stoi(line.substr(at + before.size()));
  }
  ~Server() {
    ::kill(child_, SIGTERM);
    wait_for(child_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  HttpAnswer get(const std::string& path, const std::string& headers = "") const {
    return testing::get(port_, path, headers);
  }
  HttpAnswer ask(const std::string& request) const { return testing::ask(port_, request); }

 private:
  /// Small enough to detect recursion over the length of a request.
  static constexpr rlim_t kStackBytes = 1 << 20;

  pid_t child_ = -1;
  int port_ = 0;
};

TEST_F(ServeTest, AnswersWithTheFolderAndNothingBeyond) {
  fs::create_directory(folder_ / "page");
  write("page/index.html", "<p>the page</p>");
  fs::create_directory(folder_ / "page/assets");
  write("page/assets/addnorm.wasm", std::string("\0asm", 4));
  write("secret", "not for browsers");
  const Server server(folder_ / "page");

  const auto page = server.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<p>the page</p>");
  EXPECT_EQ(page.header("content-type"), "text/html");
  EXPECT_EQ(page.header("cache-control"), "no-cache");
  const auto module = server.get("/assets/addnorm.wasm");
  EXPECT_EQ(module.header("content-type"), "application/wasm");
  EXPECT_EQ(module.header("cache-control"), "max-age=31536000, immutable");
  for (const char* path : {"/nothing", "/../secret", "/%2e%2e/secret", "/page/../../secret"}) {
    const auto missing = server.get(path);
    EXPECT_EQ(missing.status, 404) << path;
    EXPECT_THAT(missing.body, StartsWith("404")) << path;
  }
  expect_error({"serve", "--folder", "page", "--port", std::to_string(server.port())},
               "cannot be listened on; expected a free port");
}

/// A page and, in runs/, four folders: a stopped run, a running one below it, a finished one, and
/// no run. Everything else in the folder is a secret.
class ServeRunsTest : public ServeTest {
 protected:
  ServeRunsTest() {
    write("runs.html", "<p>the runs</p>");
    for (const char* run : {"stopped", "sweep/running", "finished"}) {
      fs::create_directories(folder_ / "runs" / run);
      write("runs/"s + run + "/config.json", R"({"lr":0.1,"steps":2})");
      write("runs/"s + run + "/.lock", "");
    }
    fs::create_directories(folder_ / "runs/none/deep/down");
    write("runs/none/deep/down/config.json", "{}");
    const std::string step = R"({"step":1,"loss":2.5,"tokens":64,"seconds":0.5})";
    write("runs/sweep/running/metrics.jsonl", step + "\n{\"step\":2,\"lo");
    write("runs/finished/metrics.jsonl",
          step + "\n{\"step\":2,\"loss\":1.5}\n{\"step\":2,\"validation_loss\":1.75}\n");
    write("runs/stopped/metrics.jsonl", step + R"(
{"step":2,"loss":null}
{"step":2,"stopped":"the loss is not finite"}
)");
    fs::create_directory(folder_ / "secret");
    write("secret/config.json", "{}");
    write("secret/metrics.jsonl", "not for browsers");
    fs::create_directory_symlink(folder_ / "secret", folder_ / "runs/link");
    fs::create_symlink(folder_ / "secret/metrics.jsonl", folder_ / "runs/finished/profile.jsonl");
  }
};

TEST_F(ServeRunsTest, ListsRunsAndHowFarTheyAre) {
  const int lock = ::open((folder_ / "runs/sweep/running/.lock").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  fs::last_write_time(folder_ / "runs/finished/config.json",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  const Server server(folder_, "--runs runs");
  const auto response = server.get("/api/runs");
  EXPECT_EQ(response.header("content-type"), "application/json");
  std::map<std::string, Json> runs;
  for (const Json& run : Json::parse(response.body)) runs[run["name"]] = run;
  ASSERT_EQ(runs.size(), 3U) << response.body;
  EXPECT_EQ(Json::parse(response.body)[0]["name"], "finished") << "the newest is not first";

  EXPECT_EQ(runs["finished"], Json::parse(R"({"name":"finished","config":{"lr":0.1,"steps":2},
    "step":2,"loss":1.5,"tokens":null,"seconds":null,"validation_loss":1.75,"stopped":null,
    "state":"finished"})"));
  EXPECT_EQ(runs["stopped"]["state"], "stopped");
  EXPECT_EQ(runs["stopped"]["stopped"], "the loss is not finite");
  EXPECT_TRUE(runs["stopped"]["loss"].is_null());
  EXPECT_EQ(runs["sweep/running"]["state"], "running");
  EXPECT_EQ(runs["sweep/running"]["step"], 1) << "of the last line that ends";
  ::close(lock);
  const auto later = Json::parse(server.get("/api/runs").body);
  EXPECT_EQ(std::ranges::count(later, Json("running"), [](auto& run) { return run["state"]; }), 0);
}

/// Files of a run that could end the server or hide the other runs.
TEST_F(ServeRunsTest, ListsTheOtherRunsBesideMalformedOnes) {
  const std::string open = std::string(100'000, '['), close = std::string(100'000, ']');
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  const std::map<std::string, std::string> configs = {
      {"deep", "{\"a\":" + open + close + "}"},
      {"unfinished", "{\"a\":" + open},
      {"objects", objects},
      {"array", open + close},
      {"nothing", ""},
      {"twice", R"({"lr":1,"lr":2})"},
      {"zero", "{}\0{}"s},
      {"text", "{\"a\":\"\xff\"}"},
      {"number", R"({"lr":1e999})"},
      {"list", "[1]"},
      {"null", "null"},
      {"word", "\"steps\""},
      {"nan", R"({"lr":NaN})"},
      {"large", "{}" + std::string(2 << 20, ' ')},
  };
  for (const auto& [run, config] : configs) {
    fs::create_directories(folder_ / "runs" / run);
    write("runs/" + run + "/config.json", config);
    write("runs/" + run + "/metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  }
  const std::map<std::string, std::string> metrics = {
      {"deep line", R"({"loss":1,"a":)" + open + close + "}\n"},
      {"objects line", R"({"loss":1,"a":)" + objects + "\n"},
      {"value", R"({"step":1,"loss":)" + std::string(30, '[') + std::string(30, ']') + "}\n"},
      {"types", R"({"step":"1","loss":"2","tokens":-1,"seconds":{}})"s + "\n" +
                    R"({"stopped":["loss"]})" + "\n"},
      {"bytes", "\"loss\"\0\xff\n"s},
      {"empty line", "\n"},
      {"empty lines", "\n\n\n"},
  };
  for (const auto& [run, lines] : metrics) {
    fs::create_directories(folder_ / "runs" / run);
    write("runs/" + run + "/config.json", R"({"steps":2})");
    write("runs/" + run + "/metrics.jsonl", lines);
  }
  const Server server(folder_, "--runs runs");
  std::map<std::string, Json> runs;
  for (const Json& run : Json::parse(server.get("/api/runs").body)) runs[run["name"]] = run;
  EXPECT_EQ(runs.size(), 3 + configs.size() + metrics.size());
  EXPECT_EQ(runs["finished"]["state"], "finished");
  for (const auto& [run, config] : configs) {
    EXPECT_EQ(runs[run]["config"], Json::object()) << run;
    EXPECT_EQ(runs[run]["step"], 1) << run;
    EXPECT_THAT(runs[run]["stopped"].get<std::string>(), StartsWith("config.json: ")) << run;
  }
  EXPECT_EQ(runs["deep"]["stopped"], "config.json: column 37: nested more than 32 deep");
  for (const auto& [run, lines] : metrics) {
    EXPECT_EQ(runs[run]["config"]["steps"], 2) << run;
    for (const char* key : {"loss", "tokens", "seconds", "stopped"}) {
      EXPECT_TRUE(runs[run][key].is_null()) << run << " " << key << " " << runs[run][key];
    }
  }
  EXPECT_EQ(server.get("/runs.html").status, 200);
}

/// Answers read only what has changed since the last one.
TEST_F(ServeRunsTest, FollowsARunThatGrowsStopsAndGoesOn) {
  const Server server(folder_, "--runs runs/finished");
  const auto run = [&] { return Json::parse(server.get("/api/runs").body).at(0); };
  const std::string metrics = folder_ / "runs/finished/metrics.jsonl";
  EXPECT_EQ(run()["validation_loss"], 1.75);
  io::append_file(metrics, R"({"step":3,"lo)");
  EXPECT_EQ(run()["step"], 2) << "the line has not ended";
  io::append_file(metrics, "ss\":1.25}\n");
  EXPECT_EQ(run()["step"], 3);
  EXPECT_EQ(run()["validation_loss"], 1.75) << "of an earlier request";
  io::append_file(metrics, R"({"step":3,"stopped":"interrupted"})"
                           "\n");
  EXPECT_EQ(run()["stopped"], "interrupted");
  io::append_file(metrics, R"({"step":4,"loss":1})"
                           "\n");
  EXPECT_TRUE(run()["stopped"].is_null()) << "it goes on";
  write("runs/finished/metrics.jsonl", R"({"step":1,"loss":9})"
                                       "\n");  // begins anew
  EXPECT_EQ(run()["step"], 1);
  EXPECT_TRUE(run()["validation_loss"].is_null());
  write("runs/finished/config.json", R"({"steps":1})");
  EXPECT_EQ(run()["state"], "finished");
  fs::remove(folder_ / "runs/finished/metrics.jsonl");
  EXPECT_TRUE(run()["step"].is_null());
}

/// Removing folders beside a request must not hide the others.
TEST_F(ServeRunsTest, ListsWhatStaysWhileOthersAreRemoved) {
  const Server server(folder_, "--runs runs");
  std::atomic<bool> is_done = false;
  std::thread changes([&] {
    for (int i = 0; !is_done; i = (i + 1) % 20) {
      const fs::path run = folder_ / "runs" / ("a" + std::to_string(i)) / "inner";
      std::error_code error;
      fs::create_directories(run, error);
      std::ofstream(run / "config.json") << "{}";
      fs::remove_all(run.parent_path(), error);
    }
  });
  std::size_t complete = 0;
  for (int i = 0; i < 200; ++i) {
    const auto answer = server.get("/api/runs");
    ASSERT_EQ(answer.status, 200);
    const Json runs = Json::parse(answer.body);
    complete += std::ranges::count_if(runs, [](const Json& run) {
                  const std::string name = run["name"];
                  return name == "stopped" || name == "sweep/running" || name == "finished";
                }) == 3;
  }
  is_done = true;
  changes.join();
  EXPECT_EQ(complete, 200U);
}

/// A process that swaps files and folders for links cannot make the server read a file outside.
TEST_F(ServeRunsTest, FollowsNoLinkThatReplacesAFileOrFolder) {
  write("secret/config.json", R"({"secret":true})");
  const Server server(folder_, "--runs runs");
  std::atomic<bool> is_done = false;
  std::thread changes([&] {
    const fs::path runs = folder_ / "runs";
    std::error_code error;
    while (!is_done) {
      for (const auto& [target, place] :
           {std::pair{folder_ / "secret/config.json", runs / "finished/config.json"},
            {folder_ / "secret/metrics.jsonl", runs / "finished/metrics.jsonl"},
            {folder_ / "secret", runs / "stopped"}}) {
        fs::rename(place, runs / "aside", error);
        fs::create_symlink(target, place, error);
        fs::remove(place, error);
        fs::rename(runs / "aside", place, error);
      }
    }
  });
  for (int i = 0; i < 300; ++i) {
    for (const char* path :
         {"/api/runs", "/api/runs/finished/metrics", "/api/runs/stopped/metrics"}) {
      const std::string body = server.get(path).body;
      EXPECT_THAT(body, Not(HasSubstr("secret"))) << path;
      EXPECT_THAT(body, Not(HasSubstr("not for browsers"))) << path;
    }
  }
  is_done = true;
  changes.join();
}

TEST_F(ServeRunsTest, FindsTheLastValidationFarBack) {
  std::string lines = "{\"step\":1,\"validation_loss\":3}\n";
  for (int step = 1; step <= 20000; ++step) {
    lines += R"({"step":)" + std::to_string(step) + R"(,"loss":1,"gradient_norm":0.5})" + "\n";
  }
  write("runs/finished/metrics.jsonl", lines);
  const Server server(folder_, "--runs runs/finished");  // it is itself a run
  const Json runs = Json::parse(server.get("/api/runs").body);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["name"], "finished");
  EXPECT_EQ(runs[0]["step"], 20000);
  EXPECT_EQ(runs[0]["validation_loss"], 3);
}

TEST_F(ServeRunsTest, GivesFilesFromAnyByteAndNothingBeyondTheFolder) {
  const Server server(folder_, "--runs runs");
  const std::string file = io::read_file(folder_ / "runs/sweep/running/metrics.jsonl");
  const std::string path = "/api/runs/sweep%2Frunning/metrics";
  for (const auto& [query, begin] : {std::pair<std::string, std::size_t>{"", 0},
                                     {"?from=0", 0},
                                     {"?from=50", 50},
                                     {"?from=1000000", file.size()}}) {
    const auto response = server.get(path + query);
    EXPECT_EQ(response.status, 200) << query;
    EXPECT_EQ(response.body, file.substr(begin)) << query;
    EXPECT_EQ(response.header("file-size"), std::to_string(file.size())) << query;
  }
  // the first is a link, the second does not exist yet
  for (const char* run : {"finished", "stopped"}) {
    const auto response = server.get("/api/runs/"s + run + "/profile");
    EXPECT_EQ(response.body, "") << run;
    EXPECT_EQ(response.header("file-size"), "0") << run;
  }
  EXPECT_EQ(server.get(path + "?from=-1").status, 400);
  EXPECT_EQ(server.get(path + "?from=x").status, 400);
  for (const char* name : {"link", "none", "nothing", "..%2Fsecret", "../secret", "none/deep/down",
                           "finished/../../secret", ".", "%2Ftmp"}) {
    EXPECT_EQ(server.get("/api/runs/"s + name + "/metrics").status, 404) << name;
  }
  EXPECT_EQ(server.get("/api/runs/finished/config").status, 404);
}

TEST_F(ServeRunsTest, IsFineWithNoRunsButNotWithNoFolder) {
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(Server(folder_, "--runs empty").get("/api/runs").body, "[]");
  write("index.html", "<p>the page</p>");
  EXPECT_EQ(Server(folder_).get("/api/runs").status, 404);
  expect_error({"serve", "--folder", ".", "--runs", "nowhere"}, "--runs: nowhere is no folder");
  expect_error({"serve", "--folder", "runs", "--runs", "runs"}, "--folder: runs has no runs.html");
}

/// Returns whole numbers, and similar texts, for the ends of a range.
std::vector<std::string> range_bounds(std::size_t size) {
  return {"",
          "0",
          "1",
          "007",
          std::to_string(size - 1),
          std::to_string(size),
          std::to_string(size + 1),
          "9999",
          "999999999",
          "18446744073709551615",
          "18446744073709551616",
          "99999999999999999999999999"};
}
/// Returns about 150 ranges, valid and invalid.
std::vector<std::string> ranges_of(std::size_t size) {
  std::vector<std::string> ranges{"bytes=",
                                  "bytes",
                                  "bytes=-",
                                  "bytes=--5",
                                  "bytes=5",
                                  "bytes=a-b",
                                  "bytes=0x0-0x5",
                                  "bytes=0-4,6-9",
                                  "bytes=+0-+5",
                                  "bytes=0-4-",
                                  "lines=0-4",
                                  "BYTES=0-4",
                                  "bytes=0-4;",
                                  "bytes = 0-4",
                                  "bytes=1.0-4",
                                  "bytes=-1-4",
                                  "bytes=" + std::string(8000, '7') + "-",
                                  "bytes=-" + std::string(8000, '7')};
  for (const std::string& first : range_bounds(size)) {
    for (const std::string& last : range_bounds(size)) {
      ranges.push_back("bytes=" + first + "-" + last);
    }
  }
  return ranges;
}

/// Returns the part of `whole` that a range of plain numbers requests; nothing if it has none.
std::optional<std::string> part_of(const std::string& whole, const std::string& range) {
  const auto number = [](const std::string& digits) {  // 18 digits suffice for this test
    return digits.size() > 18 ? std::size_t{1} << 60 : std::stoul(digits);
  };
  const std::size_t equals = range.find('='), dash = range.find('-');
  const std::string first = range.substr(equals + 1, dash - equals - 1);
  const std::string last = range.substr(dash + 1);
  if (first.empty()) {
    const std::size_t count = std::min(number(last), whole.size());
    if (count == 0) return std::nullopt;
    return whole.substr(whole.size() - count);
  }
  if (number(first) >= whole.size()) return std::nullopt;
  return whole.substr(number(first),
                      last.empty() ? std::string::npos : number(last) - number(first) + 1);
}

/// Checks that the answer to a request for a range of `whole` has exactly the requested bytes.
void check_range(const std::string& whole, const std::string& range, const HttpAnswer& answer) {
  SCOPED_TRACE(range.substr(0, 60));
  const bool is_range = range.starts_with("bytes=") &&
                        range.find_first_not_of("0123456789-", 6) == std::string::npos &&
                        std::ranges::count(range, '-') == 1 && range.size() > 7;
  std::optional<std::string> part;
  if (is_range) part = part_of(whole, range);
  switch (answer.status) {
    case 200:  // allowed for a range that the server does not understand
      EXPECT_EQ(answer.body, whole);
      EXPECT_EQ(answer.header("content-range"), "");
      break;
    case 206: {
      ASSERT_TRUE(part);
      EXPECT_EQ(answer.body, *part);
      EXPECT_THAT(answer.header("content-range"), StartsWith("bytes "));
      EXPECT_TRUE(answer.header("content-range").ends_with("/" + std::to_string(whole.size())));
      break;
    }
    case 416:
      EXPECT_TRUE(is_range && !part);
      EXPECT_EQ(answer.header("content-range"), "bytes */" + std::to_string(whole.size()));
      EXPECT_EQ(answer.body, "");
      break;
    default:
      ADD_FAILURE() << "status " << answer.status;
  }
}

TEST_F(ServeRunsTest, SendsNoByteBeyondWhatIsServedWhateverTheRange) {
  write("index.html", "<p>the page</p>");
  write("icon.svg", std::string(405, 'i'));
  write("empty.txt", "");
  const Server server(folder_, "--runs runs");
  for (const char* path :
       {"/icon.svg", "/", "/empty.txt", "/api/runs", "/api/runs/finished/metrics",
        "/api/runs/finished/metrics?from=50", "/api/runs/finished/profile"}) {
    SCOPED_TRACE(path);
    const std::string whole = server.get(path).body;
    int partial = 0;
    for (const std::string& range : ranges_of(whole.size())) {
      const HttpAnswer answer = server.get(path, "Range: " + range + "\r\n");
      check_range(whole, range, answer);
      partial += answer.status == 206;
    }
    EXPECT_EQ(partial > 0, !whole.empty()) << "ranges are not served at all";
  }
}

TEST_F(ServeRunsTest, SendsAPartWithItsPlace) {
  write("icon.svg", "0123456789");
  const Server server(folder_, "--runs runs");
  const HttpAnswer middle = server.get("/icon.svg", "Range: bytes=2-4\r\n");
  EXPECT_EQ(middle.status, 206);
  EXPECT_EQ(middle.body, "234");
  EXPECT_EQ(middle.header("content-range"), "bytes 2-4/10");
  EXPECT_EQ(server.get("/icon.svg", "Range: bytes=8-99\r\n").body, "89");
  EXPECT_EQ(server.get("/icon.svg", "Range: bytes=-3\r\n").body, "789");
  EXPECT_EQ(server.get("/icon.svg", "Range: bytes=10-\r\n").status, 416);
  EXPECT_EQ(server.get("/icon.svg", "Range: bytes=2-4\r\nIf-Range: \"x\"\r\n").body, "0123456789");
  EXPECT_EQ(server.get("/nothing", "Range: bytes=0-2\r\n").status, 404);
  const HttpAnswer head = server.ask(
      "HEAD /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nRange: "
      "bytes=2-4\r\n\r\n");
  EXPECT_EQ(head.status, 200) << "a range is a matter of GET";
  EXPECT_EQ(head.header("content-length"), "10");
}

TEST_F(ServeRunsTest, DoesNotLetBrowsersKeepARefusal) {
  fs::create_directory(folder_ / "assets");
  write("assets/a.js", "0123456789");
  const Server server(folder_, "--runs runs");
  const HttpAnswer beyond = server.get("/assets/a.js", "Range: bytes=10-\r\n");
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.header("cache-control"), "");
}

TEST_F(ServeRunsTest, AnswersManyRequestsOnOneConnection) {
  write("icon.svg", "0123456789");
  const Server server(folder_, "--runs runs");
  const std::string first = "GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string last = "GET /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const std::string answers = testing::exchange(server.port(), first + first + last);
  std::size_t count = 0;
  for (std::size_t at = 0; (at = answers.find("HTTP/1.1 200 OK\r\n", at)) != std::string::npos;) {
    ++count, ++at;
  }
  EXPECT_EQ(count, 3U) << answers;
}

TEST_F(ServeRunsTest, NoRequestBreaksIt) {
  write("icon.svg", "0123456789");
  const Server server(folder_, "--runs runs");
  const std::string many(8100, 'a');
  EXPECT_EQ(server.get("/api/runs/" + many + "/metricz").status, 404);
  EXPECT_EQ(server.get("/api/runs/" + many + "/metrics").status, 404);
  EXPECT_EQ(server.get("/" + many).status, 404);
  EXPECT_EQ(server.get("/icon.svg?" + many + "=" + many).status, 200);
  EXPECT_EQ(server.get("/icon.svg%00.html").status, 200) << "the path ends there";
  EXPECT_EQ(server.get("/" + std::string(100000, 'a')).status, 414);
  EXPECT_EQ(server.get("/icon.svg", "X: " + std::string(100000, 'a') + "\r\n").status, 431);
  for (const char* path : {"//etc/passwd", "/icon.svg/", "/%", "/%zz", "/\xff", "/..", "/."}) {
    EXPECT_EQ(server.get(path).status, 404) << path;
  }
  const HttpAnswer head =
      server.ask("HEAD /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "10");
  EXPECT_EQ(head.body, "");
  const HttpAnswer post = server.ask(
      "POST /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 5\r\n\r\n--b--");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.header("allow"), "GET, HEAD");
  EXPECT_EQ(server.get("/icon.svg").body, "0123456789");
}

// Another site's name may be made to resolve to this machine, and its pages could then read the
// server's files.
TEST_F(ServeRunsTest, RefusesPagesOfOtherSites) {
  const Server server(folder_, "--runs runs");
  const auto status = [&](const std::string& headers) {
    return server.ask("GET /api/runs HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n").status;
  };
  for (const char* own :
       {"localhost", "LocalHost:1", "127.0.0.1:8080", "[::1]", "[::1]:65535", "localhost:"}) {
    EXPECT_EQ(status("Host: "s + own + "\r\n"), 200) << own;
    EXPECT_EQ(status("Host: localhost\r\nOrigin: http://"s + own + "\r\n"), 200) << own;
  }
  for (const char* other : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "",
                            "localhost:8080.evil.example", "evil.example:80", "::1",
                            "localhost@evil.example", "[::1]evil.example", "0.0.0.0", "10.0.0.1"}) {
    EXPECT_EQ(status("Host: "s + other + "\r\n"), 421) << other;
    EXPECT_EQ(status("Host: localhost\r\nOrigin: http://"s + other + "\r\n"), 403) << other;
  }
  // Newer versions of libmicrohttpd refuse this request themselves.
  EXPECT_THAT(status(""), AnyOf(400, 421)) << "no Host at all";
  EXPECT_EQ(status("Host: localhost\r\nOrigin: null\r\n"), 403);
}

TEST_F(ServeRunsTest, SaysWhatPagesMayDo) {
  write("index.html", "<p>the page</p>");
  const Server server(folder_, "--runs runs");
  for (const char* path :
       {"/", "/index.html", "//index.html", "/nothing", "/runs.html", "/%2Fruns.html",
        "//runs.html", "/./runs.html", "/assets/..%2f", "/runs%2ehtml", "/%72uns.html",
        "/.//.%2F/runs.html", "/runs.html?x", "/api/runs"}) {
    SCOPED_TRACE(path);
    const HttpAnswer answer = server.get(path);
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.header("referrer-policy"), "no-referrer");
    EXPECT_THAT(answer.header("content-security-policy"), StartsWith("default-src 'self'; "));
    const bool is_private = answer.body == "<p>the runs</p>" || path == "/api/runs"s;
    EXPECT_EQ(answer.body == "<p>the runs</p>",
              std::string_view(path).find("uns") != std::string_view::npos && path != "/api/runs"s);
    EXPECT_EQ(answer.header("x-frame-options"), is_private ? "DENY" : "");
    EXPECT_EQ(answer.header("content-security-policy").ends_with("; frame-ancestors 'none'"),
              is_private);
  }
}

// A header that allows less than the page's own policy would break the page.
TEST_F(ServeTest, PolicyIsThatOfThePage) {
  const std::string page = io::read_file(fs::path(ADDNORM_SOURCE_DIR) / "web/index.html");
  const std::string before = "content=\"default-src";
  const std::size_t at = page.find(before) + 9;
  write("index.html", page);
  EXPECT_EQ(Server(folder_).get("/").header("content-security-policy"),
            page.substr(at, page.find('"', at) - at));
}

TEST_F(ServeTest, SendsWhatIsCompressedWhereItIsAccepted) {
  write("index.html", "plain");
  write("index.html.br", "brotli");
  write("index.html.gz", "gzipped");
  write("page.js", "plain");
  write("page.js.gz", "gzipped");
  write("icon.svg", "plain");
  const Server server(folder_);
  struct Case {
    const char* path;
    const char* accepted;
    const char* body;
  };
  for (const auto& [path, accepted, body] : {Case{"/", "gzip, deflate, br", "brotli"},
                                             {"/", "gzip;q=1.0, br;q=0", "gzipped"},
                                             {"/", "br;q=0.000, *;q=0.1", "gzipped"},
                                             {"/", "*", "brotli"},
                                             {"/", "identity", "plain"},
                                             {"/", "xbr, gzipx", "plain"},
                                             {"/page.js", "BR, GZIP ; q=0.5", "gzipped"},
                                             {"/icon.svg", "gzip, br", "plain"}}) {
    SCOPED_TRACE(path + " "s + accepted);
    const HttpAnswer answer = server.get(path, "Accept-Encoding: "s + accepted + "\r\n");
    EXPECT_EQ(answer.body, body);
    const bool is_plain = body == "plain"s;
    const std::string coding = is_plain ? "" : body == "brotli"s ? "br" : "gzip";
    EXPECT_EQ(answer.header("content-encoding"), coding);
    EXPECT_EQ(answer.header("vary"), path == "/icon.svg"s ? "" : "Accept-Encoding");
  }
  EXPECT_EQ(server.get("/").body, "plain");
  EXPECT_EQ(server.get("/", "Accept-Encoding: br\r\n").header("content-type"), "text/html");
}

TEST_F(ServeRunsTest, TakesNoBody) {
  const Server server(folder_, "--runs runs");
  const std::string begin = "GET /api/runs HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_EQ(server.ask(begin + "Connection: close\r\nContent-Length: 0\r\n\r\n").status, 200);
  EXPECT_EQ(server.ask(begin + "Content-Length: 1000000000000\r\n\r\n").status, 413);
  EXPECT_EQ(
      server.ask(begin + "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n").status,
      413);
}

/// Whether the server neither answered on this connection nor closed it.
bool is_open(int connection) {
  char byte;
  return ::recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN;
}

// A server once waited for the end of each slow connection, which its limit of 30 s closes.
TEST_F(ServeRunsTest, SlowClientsDoNotStallOthers) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const Server server(folder_, "--runs runs");
  std::vector<int> slow;
  for (int i = 0; i < 2500; ++i) {
    slow.push_back(testing::connect_to(server.port()));
    EXPECT_EQ(::send(slow.back(), "GET /", 5, MSG_NOSIGNAL), 5);
    if (i % 100 == 0) {
      ASSERT_EQ(server.get("/api/runs").status, 200) << i;
      // The answer came before the end of the slow connection, so it did not wait for that end.
      ASSERT_TRUE(is_open(slow.back())) << i;
    }
  }
  for (const int connection : slow) ::close(connection);
}

}  // namespace
}  // namespace addnorm
