// Folder of the files that tests read.
#pragma once

#include <filesystem>

namespace longformer {

/// tests/fixtures of the source tree.
inline std::filesystem::path fixtures_folder() {
  return std::filesystem::path(__FILE__).parent_path() / "fixtures";
}

}  // namespace longformer
