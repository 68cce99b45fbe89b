// A system of one's own: random triplets, and a loss that only looks at how much nearer the negative is than the positive.
#include <smartmine/train/system.h>
#include <smartmine/train/trainer.h>

#include <cstdio>

int main(int, char** arguments) {
  smartmine::System system;
  system.traits = {.name = "softplus", .description = "random triplets, a smooth hinge", .learning_rate = 0.05};
  system.plan = smartmine::random_plan;
  system.loss = [](const torch::Tensor& embeddings, const smartmine::BatchLabels&, const smartmine::SystemOptions&) {
    const auto parts = embeddings.chunk(3);
    const auto too_near = (parts[0] - parts[1]).pow(2).sum(1) - (parts[0] - parts[2]).pow(2).sum(1);
    smartmine::BatchLoss loss;
    loss.value = torch::softplus(4 * too_near).mean();
    loss.active = (too_near > 0).sum();
    loss.terms = too_near.size(0);
    return loss;
  };
  smartmine::RunConfig config;
  config.system.name = system.traits.name;
  config.schedule.epochs = 1;
  config.compute.threads = 1;
  auto run = smartmine::RunDirectory::create(arguments[1], config);
  smartmine::Trainer(config, run, system).run();
  std::printf("recall@1 rises: %s\n", run.log()[1].metrics->recall_at_1 > run.log()[0].metrics->recall_at_1 ? "yes" : "no");
}
