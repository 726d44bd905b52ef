#include "longformer/convert.h"

#include "models/convert.h"

namespace longformer {

void convert(const std::string& source_folder, const std::string& target_folder,
             const ConvertOptions& options) {
  models::convert_folder(source_folder, target_folder, options);
}

}  // namespace longformer
