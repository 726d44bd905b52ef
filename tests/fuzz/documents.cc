// Documents of Word, OpenDocument and EPUB; the first byte chooses what the rest is: a file, or XML
// of one of its parts, which no checksum guards.
#include "core/unpacking.h"
#include "documents/readers.h"
#include "fuzzing.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  if (size == 0) return 0;
  const std::string rest(fuzzing::text_of(data + 1, size - 1));
  const auto check = [](const DocumentContents& contents) {
    if (!text::is_valid_utf8(contents.text) || contents.text.find('\0') != std::string::npos)
      std::abort();
  };
  fuzzing::expect_result_or_error([&] {
    switch (data[0] % 5) {
      case 0:
        // A process for each PDF would be slow.
        if (rest.find("%PDF") != std::string::npos) return;
        if (const auto outcome = file_contents(rest, "input"); outcome.contents)
          check(*outcome.contents);
        return;
      case 1:
        return check(documents::word_text(rest, rest, rest));
      case 2:
        return check(documents::open_document_text(rest));
      case 3:
        return check(documents::pages_of(rest));
      default:
        if (inflated(rest, size).size() != size) std::abort();
    }
  });
  return 0;
}
