// Answers of web servers, several at a time, by libcurl: proxies, TLS and redirects are its own.
// The library is loaded when something is fetched, so a program that fetches nothing neither needs
// it nor waits for the thirty libraries that come with it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::hub {

/// The beginning of an answer, that behind the redirects that were followed.
struct AnswerHead {
  long status = 0;
  /// Names in lower case.
  std::map<std::string, std::string> headers = {};
  /// The whole address that a redirect names which was not followed.
  std::string redirect = {};

  bool is_good() const { return status >= 200 && status < 300; }
  /// Empty for none.
  std::string header(const std::string& name) const;
};

/// A request and who takes its answer. Calls that throw end it.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual std::string address() const = 0;
  /// The first byte that is wanted.
  virtual std::int64_t first() const = 0;
  /// Whether only the head of the first answer is wanted: no bytes, and no redirect is followed.
  virtual bool is_head() const { return false; }
  /// Before the bytes of a good answer.
  virtual void begin(const AnswerHead& head) = 0;
  virtual void take(std::string_view bytes) = 0;
};

enum class Fault {
  none,
  /// The connection ended, or nothing came for too long.
  broken,
  /// No name or no connection.
  unreachable,
  /// Nothing that another try could change, as a certificate.
  final
};

/// A transfer that has ended.
struct Outcome {
  Transfer* transfer = nullptr;
  AnswerHead head = {};
  Fault fault = Fault::none;
  /// The fault in the words of libcurl.
  std::string reason = {};
  /// Exception of a call of the transfer.
  std::exception_ptr thrown = {};
};

struct ClientOptions {
  /// A redirect to another host, port or protocol does not get it.
  std::string token;
  /// How long a connection may take, and how long nothing may come.
  std::chrono::seconds patience{10};
  /// Whether redirects may lead to an address without TLS.
  bool allows_plain = false;
};

/// Transfers under way. All calls come from one thread.
class Client {
 public:
  /// Throws Error where libcurl is not installed.
  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Starts a transfer, which must live until its outcome or the end of the client.
  void start(Transfer& transfer);
  std::size_t under_way() const;
  /// Those that have ended, after at most this time.
  std::vector<Outcome> wait(std::chrono::milliseconds time);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace longformer::hub
