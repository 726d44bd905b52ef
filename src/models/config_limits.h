// Limits that no config.json may exceed: far above every model, low enough that no product of two
// of them overflows an Index.
#pragma once

#include "core/dtype.h"

namespace longformer::models {

inline constexpr Index kMaxHidden = Index{1} << 16;
inline constexpr Index kMaxLayers = 1024;
inline constexpr Index kMaxIntermediate = Index{1} << 20;
inline constexpr Index kMaxVocabulary = Index{1} << 24;
inline constexpr Index kMaxPositions = Index{1} << 26;
inline constexpr Index kMaxTypes = Index{1} << 16;
inline constexpr Index kMaxWindow = Index{1} << 30;
inline constexpr Index kMaxDilation = Index{1} << 20;
inline constexpr Index kMaxLabels = Index{1} << 20;

}  // namespace longformer::models
