// Tables of documents, also as archives: the first byte chooses the form and the options.
#include "longformer/tables.h"

#include <array>
#include <cstdlib>

#include "fuzzing.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  if (size == 0) return 0;
  constexpr std::array<const char*, 5> kFormats = {"", "csv", "tsv", "jsonl", "json"};
  DataOptions options;
  options.format = kFormats[data[0] % kFormats.size()];
  if ((data[0] & 32u) != 0) options.columns = {"id", "text"};
  if ((data[0] & 64u) != 0) options.encoding.name = "utf-16";
  options.quotes = data[0] < 128;
  const std::string_view text = fuzzing::text_of(data + 1, size - 1);
  static_cast<void>(table_seen_in(text));
  const fuzzing::MemoryFile file(text);
  fuzzing::expect_result_or_error([&] {
    DocumentTable table(file.path(), options, (data[0] & 16u) != 0 ? "question" : "");
    TableDocument document;
    std::int64_t line = 0;
    while (table.next(document)) {
      // Rows come in order, and hold text or an error.
      if (document.line < line || document.bytes < 0) std::abort();
      line = document.line;
      if (!document.error.empty() && document.error.find('\n') != std::string::npos) std::abort();
      if (document.error.empty() && !text::is_valid_utf8(document.text)) std::abort();
    }
    if (table.next(document)) std::abort();
  });
  return 0;
}
