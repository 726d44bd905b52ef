#include "longformer/convert.h"

#include "models/convert/convert.h"
#include "tasks/head_plan.h"

namespace longformer {

ConvertedFrom convert(const std::string& source_folder, const std::string& target_folder,
                      const ConvertOptions& options) {
  return models::convert_folder(source_folder, target_folder, options, tasks::plan_head);
}

}  // namespace longformer
