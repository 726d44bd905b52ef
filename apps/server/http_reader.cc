// The one file with Beast.
#include "http_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/version.hpp>
#include <chrono>

#include "http_text.h"

namespace longformer::server {

namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using ErrorCode = boost::system::error_code;

std::string_view view(string_view text) { return {text.data(), text.size()}; }

}  // namespace

/// Checks what Beast leaves to its user, and collects the request.
class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(const HttpOptions& options) : options_(options) {
    header_limit(static_cast<std::uint32_t>(options.most_header_bytes));
    // Beast would refuse the header; the body is refused later, once the handler has seen the
    // header.
    body_limit(boost::none);
  }

  /// Takes bytes off the front of `input`; is_header_done() tells whether it was enough.
  BadRequest read_head(std::string& input);
  /// Takes bytes off the front of `input`; is_done() tells whether it was enough.
  BadRequest read_body(std::string& input);

  HttpRequest& request() { return request_; }
  bool is_http10() const { return version_ == 10; }
  bool wants_continue() const { return wants_continue_; }

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       ErrorCode& error) override;
  void on_response_impl(int, string_view, int, ErrorCode&) override {}
  void on_field_impl(http::field, string_view name, string_view value, ErrorCode&) override {
    // Fields behind a chunked body are read and dropped.
    if (!is_header_done()) request_.headers.emplace_back(view(name), view(value));
  }
#if BOOST_BEAST_VERSION >= 359
  void on_trailer_field_impl(http::field, string_view, string_view, ErrorCode&) override {}
#endif
  void on_header_impl(ErrorCode& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(string_view text, ErrorCode& error) override;
  void on_chunk_header_impl(std::uint64_t size, string_view, ErrorCode& error) override {
    check_size(size, error);
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view text, ErrorCode& error) override {
    return on_body_impl(text, error);
  }
  void on_finish_impl(ErrorCode&) override {}

  void check_size(std::uint64_t further, ErrorCode& error);
  BadRequest check_fields() const;
  void fail(BadRequest failure, ErrorCode& error) {
    failure_ = failure;
    error = http::error::bad_value;
  }
  BadRequest failure_of(const ErrorCode& error) const;

  const HttpOptions& options_;
  HttpRequest request_;
  std::string target_;
  BadRequest failure_;
  std::size_t header_bytes_ = 0;
  int version_ = 11;
  bool wants_continue_ = false;
};

BadRequest RequestReader::Parser::read_head(std::string& input) {
  // RFC 9112 2.2: an empty line before a request is ignored.
  if (!got_some() && input.starts_with("\r\n")) input.erase(0, 2);
  if (input.empty() || (!got_some() && input == "\r")) return {};
  ErrorCode error;
  const std::size_t used = put(boost::asio::buffer(input), error);
  // Beast joins folded lines; others do not, so what they pass on could mean something else here.
  for (std::size_t i = input.find("\r\n"); i < used; i = input.find("\r\n", i + 2)) {
    const bool is_inside = i + 2 < used;
    if (is_inside && (input[i + 2] == ' ' || input[i + 2] == '\t')) {
      return {400, "a header is folded over several lines"};
    }
  }
  input.erase(0, used);
  header_bytes_ += used;
  if (error && error != http::error::need_more) return failure_of(error);
  const std::size_t waiting = is_header_done() ? 0 : input.size();
  if (header_bytes_ + waiting > options_.most_header_bytes) {
    return failure_of(http::error::header_limit);
  }
  return {};
}

BadRequest RequestReader::Parser::read_body(std::string& input) {
  eager(true);
  // Beast 1.81 asserts that the end of a chunked body comes with at least these bytes.
  constexpr std::size_t kLeastChunk = 5;
  while (!is_done() && input.size() >= (chunked() ? kLeastChunk : 1)) {
    ErrorCode error;
    const std::size_t used = put(boost::asio::buffer(input), error);
    input.erase(0, used);
    if (error && error != http::error::need_more) return failure_of(error);
    if (error || used == 0) break;
  }
  if (!is_done() && input.size() > options_.most_header_bytes) {
    return {431, "the header of a chunk or what follows the body is too long"};
  }
  return {};
}

void RequestReader::Parser::on_request_impl(http::verb, string_view method, string_view target,
                                            int version, ErrorCode& error) {
  request_.method = view(method);
  target_ = view(target);
  version_ = version;
  if (target_.size() > options_.most_target_bytes) fail({414, "the address is too long"}, error);
}

void RequestReader::Parser::on_header_impl(ErrorCode& error) {
  request_.arrival = std::chrono::steady_clock::now();
  BadRequest failure = check_fields();
  if (failure.status == 0 && !read_target(target_, request_)) {
    failure = {400, "the address is malformed"};
  }
  if (failure.status != 0) fail(failure, error);
  wants_continue_ = !is_http10() && request_.header("Expect").has_value();
}

BadRequest RequestReader::Parser::check_fields() const {
  std::size_t hosts = 0, codings = 0, lengths = 0;
  for (const auto& [name, value] : request_.headers) {
    if (equals_ignoring_case(name, "Host")) {
      if (++hosts > 1 || !is_host(value)) return {400, "expected one valid Host header"};
    } else if (equals_ignoring_case(name, "Transfer-Encoding")) {
      // Beast reads a request in another coding as one without a body, and the body as a request.
      if (++codings > 1 || is_http10() || !equals_ignoring_case(value, "chunked")) {
        return {400, "expected no Transfer-Encoding but chunked"};
      }
    } else if (equals_ignoring_case(name, "Content-Length")) {
      // Beast takes "5, 5" and two that are equal, which RFC 9112 leaves open.
      if (++lengths > 1 || value.find(',') != std::string::npos) {
        return {400, "expected one Content-Length, found several"};
      }
    } else if (equals_ignoring_case(name, "Expect")) {
      if (!is_http10() && !equals_ignoring_case(value, "100-continue")) {
        return {417, "expected no expectation but 100-continue"};
      }
    }
  }
  if (hosts == 0 && !is_http10()) return {400, "expected a Host header, found none"};
  return {};
}

void RequestReader::Parser::check_size(std::uint64_t further, ErrorCode& error) {
  if (further > options_.most_body_bytes - request_.body.size()) {
    fail({413, "the body is too large"}, error);
  }
}

std::size_t RequestReader::Parser::on_body_impl(string_view text, ErrorCode& error) {
  check_size(text.size(), error);
  if (error) return 0;
  request_.body.append(text.data(), text.size());
  return text.size();
}

BadRequest RequestReader::Parser::failure_of(const ErrorCode& error) const {
  if (failure_.status != 0) return failure_;
  if (error == http::error::header_limit) {
    return target_.empty() ? BadRequest{414, "the address is too long"}
                           : BadRequest{431, "the headers are too long"};
  }
  return {400, "the request is malformed"};
}

RequestReader::RequestReader(const HttpOptions& options)
    : parser_(std::make_unique<Parser>(options)) {}

RequestReader::~RequestReader() = default;

BadRequest RequestReader::read_head(std::string& input) { return parser_->read_head(input); }
BadRequest RequestReader::read_body(std::string& input) { return parser_->read_body(input); }
bool RequestReader::has_head() const { return parser_->is_header_done(); }
bool RequestReader::is_whole() const { return parser_->is_done(); }
HttpRequest& RequestReader::request() { return parser_->request(); }
bool RequestReader::is_http10() const { return parser_->is_http10(); }
bool RequestReader::wants_continue() const { return parser_->wants_continue(); }
bool RequestReader::keeps_connection() const { return parser_->keep_alive(); }

std::optional<std::uint64_t> RequestReader::content_length() const {
  const boost::optional<std::uint64_t> length = parser_->content_length();
  return length ? std::optional(*length) : std::nullopt;
}

}  // namespace longformer::server
