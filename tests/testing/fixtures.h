// Folders that tests read.
#pragma once

#include <filesystem>

namespace longformer {

/// Root of the source tree (tests/testing/source_folder.cc).
std::filesystem::path source_folder();

/// tests/fixtures of the source tree.
inline std::filesystem::path fixtures_folder() { return source_folder() / "tests" / "fixtures"; }

}  // namespace longformer
