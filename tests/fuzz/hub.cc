// Lists of files from a server, and modules.json: what is chosen lies inside the repository.
#include <algorithm>
#include <string>

#include "fuzzing.h"
#include "hub/files.h"
#include "hub/names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  const std::string_view text = fuzzing::text_of(data, size);
  const std::size_t end = std::min(text.find('\0'), text.size());
  const std::string modules(text.substr(std::min(end + 1, text.size())));
  fuzzing::expect_result_or_error([&] {
    const hub::Listing listing = hub::parse_listing(text.substr(0, end), "o/n");
    const auto read = [&](const hub::RemoteFile&) { return modules; };
    for (const hub::RemoteFile& file : hub::files_to_read(listing, "o/n", read)) {
      const bool good = hub::is_file_name(file.name) && file.size >= 0 &&
                        (hub::is_hexadecimal(file.hash, 40) || hub::is_hexadecimal(file.hash, 64));
      if (!good) std::abort();
    }
  });
  return 0;
}
