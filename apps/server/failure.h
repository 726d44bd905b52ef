// The answers to requests that cannot be served.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "http.h"
#include "longformer/error.h"

namespace longformer::server {

/// One line for the client, with a status of HTTP and an error type of text-embeddings-inference:
/// Unhealthy, Backend, Overloaded, Validation, Tokenizer or Empty.
class Failure : public std::runtime_error {
 public:
  Failure(int status, std::string type, const std::string& message, Fields headers = {})
      : std::runtime_error(one_line(message)),
        status_(status),
        type_(std::move(type)),
        headers_(std::move(headers)) {}

  int status() const { return status_; }
  const std::string& type() const { return type_; }
  const Fields& headers() const { return headers_; }

 private:
  /// Text that a client sent may be long and hold anything.
  static std::string one_line(const std::string& message);

  int status_;
  std::string type_;
  Fields headers_;
};

/// A value of the request that cannot be used: 422.
[[noreturn]] void refuse(const std::string& message);
/// 422, for a member that must be there, and 400 for one that is empty.
[[noreturn]] void refuse_missing(std::string_view name);
[[noreturn]] void refuse_empty(std::string_view name);

/// No model that is served can do this: 424.
[[noreturn]] void refuse_head(const std::string& message);

/// An error of the library. `list` names the texts of the request, such as "inputs", of which it
/// may be about one.
Failure failure_of(const Error& error, std::string_view list);

/// The forms of an error: text-embeddings-inference's, one that OpenAI's clients read too, and
/// Ollama's.
enum class ErrorForm { tei, openai, ollama };

std::string error_json(const Failure& failure, ErrorForm form = ErrorForm::tei);

/// The form that the clients of a path read.
ErrorForm error_form_of(std::string_view path);

HttpResponse response_of(const Failure& failure, std::string_view path);

}  // namespace longformer::server
