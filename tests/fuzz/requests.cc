// Bytes of a connection to `longformer serve`, up to the answers of its routes.
#include <cstdlib>
#include <filesystem>

#include "fuzzing.h"
#include "http_reader.h"
#include "served.h"

namespace {

using longformer::server::HttpOptions;
using longformer::server::HttpResponse;
using longformer::server::RequestReader;
using longformer::server::ServedModels;

/// Each answer is of a status that the contract has, and an error is one line.
void check(const HttpResponse& response) {
  constexpr int known[] = {200, 201, 204, 400, 401, 403, 404, 405, 408, 413,
                           414, 415, 417, 422, 424, 429, 431, 503, 507};
  bool is_known = false;
  for (const int status : known) is_known = is_known || response.status == status;
  const bool is_line = response.status < 400 || response.body.find('\n') == std::string::npos;
  if (!is_known || !is_line) std::abort();
}

ServedModels& served() {
  static ServedModels* all = [] {
    std::string name = "/tmp/longformer_fuzz_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    auto models = longformer::server::tiny_models(LONGFORMER_FIXTURES, name);
    std::filesystem::remove_all(name);
    // Few bytes, so that the documents of one input do not fill the memory of the next.
    return std::make_unique<ServedModels>(std::move(models), 1 << 16).release();
  }();
  return *all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const HttpOptions options;
  std::string input(longformer::fuzzing::text_of(data, size));
  // Requests that follow each other on a connection.
  for (int count = 0; count < 4 && !input.empty(); ++count) {
    RequestReader reader(options);
    if (reader.read_head(input).status != 0 || !reader.has_head()) return 0;
    if (reader.read_body(input).status != 0 || !reader.is_whole()) return 0;
    check(served().ask(reader.request()));
    if (!reader.keeps_connection()) return 0;
  }
  return 0;
}
