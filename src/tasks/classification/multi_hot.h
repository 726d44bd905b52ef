// Labels as a row of 0 and 1, a place for each class.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/classification/classification_data.h"

namespace longformer::tasks {

/// Whether a text says yes or no: 0, 1, 0.0, 1.0, true or false; absent for others.
std::optional<bool> bit_of(const std::string& text);

/// The labels of a field of a table: those of a JSON list, or of two or more 0 and 1 between spaces
/// or commas; absent for the one label that others are.
std::optional<std::vector<std::string>> listed_labels(const std::string& field);

/// Replaces lists of labels that are such rows by the names of their classes and returns all names:
/// the known ones, else LABEL_0, LABEL_1, …; absent for lists of names. Throws Error that begins
/// with `path` for rows of several lengths or another one than the known classes have, and where
/// they may be either.
std::optional<std::vector<std::string>> name_places(std::vector<UnresolvedDocument>& documents,
                                                    const std::optional<LabelSet>& known,
                                                    const std::string& path);

}  // namespace longformer::tasks
