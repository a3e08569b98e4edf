// A server's answers to requests, byte by byte.

#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <string>

#include "support/program.h"

namespace addnorm::testing {

/// Status 0 means that there was no answer.
struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

inline HttpAnswer parse_answer(const std::string& text) {
  HttpAnswer answer;
  const std::size_t head = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || head == std::string::npos) return answer;
  answer.status = std::stoi(text.substr(9));
  answer.body = text.substr(head + 4);
  for (std::size_t at = text.find("\r\n"); at < head;) {
    const std::size_t begin = at + 2;
    at = text.find("\r\n", begin);
    const std::string line = text.substr(begin, at - begin);
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_TRUE(answer.headers.emplace(name, line.substr(colon + 2)).second) << "twice: " << line;
  }
  return answer;
}

/// Connects to a port of this machine; a read or write that takes 20 s ends the connection.
inline int connect_to(int port) {
  const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return connection;
  }
  ::close(connection);
  return -1;
}

/// Sends a request to a port of this machine, and reads until the server closes the connection.
inline std::string exchange(int port, const std::string& request) {
  const int connection = connect_to(port);
  if (connection < 0) return "";
  const ssize_t sent = ::send(connection, request.data(), request.size(), MSG_NOSIGNAL);
  EXPECT_EQ(sent, static_cast<ssize_t>(request.size()));
  std::string answer = read_to_end(connection);
  ::close(connection);
  return answer;
}

/// Returns the answer to one request that asks the server to close the connection. It checks that
/// the length is the announced one.
inline HttpAnswer ask(int port, const std::string& request) {
  HttpAnswer answer = parse_answer(exchange(port, request));
  const bool has_body = answer.status != 0 && !request.starts_with("HEAD ");
  if (has_body) {
    EXPECT_EQ(answer.header("content-length"), std::to_string(answer.body.size())) << request;
  }
  return answer;
}

/// Sends GET with header lines that each end in "\r\n".
inline HttpAnswer get(int port, const std::string& path, const std::string& headers = "") {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                       headers + "\r\n");
}

}  // namespace addnorm::testing
