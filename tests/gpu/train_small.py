"""A few steps of eager training with NVTX ranges and a replayed CUDA graph: small enough for a tape."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0), 3).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
x = torch.randn(4, 64, 256, device="cuda")

for step in range(4):
    with torch.cuda.nvtx.range(f"step {step}"):
        optimizer.zero_grad()
        with torch.cuda.nvtx.range("forward"):
            loss = model(x).square().mean()
        with torch.cuda.nvtx.range("backward"):
            loss.backward()
        with torch.cuda.nvtx.range("optimizer"):
            optimizer.step()
torch.cuda.synchronize()
print("loss", loss.item())

model.eval()
graph = torch.cuda.CUDAGraph()
with torch.no_grad():
    model(x)
    with torch.cuda.graph(graph):
        y = model(x)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print("mean", y.mean().item())
