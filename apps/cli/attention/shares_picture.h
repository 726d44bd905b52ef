// Where the attention of a model with memories goes, as bars: by kind and age of the rows at the
// end, and over a training.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attention/picture.h"
#include "longformer/language_model.h"
#include "longformer/training.h"

namespace longformer::cli {

/// The bytes of a picture with a panel for the mean of the layers and a smaller one for each, and,
/// where there are evaluations of a training with shares (LanguageModelTraining), how the mean came
/// about. Throws Error as picture_file does.
std::string shares_picture(PictureFormat format, std::span<const AttentionShares> layers,
                           std::span<const EvaluationPoint> evaluations = {});

/// Shares of the layers as the last evaluation that has them found them; none without one.
std::vector<AttentionShares> last_shares(std::span<const EvaluationPoint> evaluations);

/// The format of a file by the ending of its name. Throws UsageError for another.
PictureFormat picture_format_of(const std::string& file);

}  // namespace longformer::cli
