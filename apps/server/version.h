// The version that /info tells.
#pragma once

namespace longformer::server {

/// The version of the project.
inline constexpr const char* kVersion = LONGFORMER_VERSION;

}  // namespace longformer::server
