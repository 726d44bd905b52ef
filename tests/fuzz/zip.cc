// The directory of a zip archive.
#include "formats/zip_archive.h"
#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  fuzzing::expect_result_or_error([&] {
    const auto archive = formats::ZipArchive::open(std::as_bytes(std::span(data, size)), "input");
    for (const auto& [name, bytes] : archive.entries()) archive.check_contents(name);
  });
  return 0;
}
