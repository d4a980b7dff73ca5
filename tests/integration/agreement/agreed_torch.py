"""agreed_torch.py SECONDS: PyTorch on the CPU for walk_agreement.c: training with hooks and functions of Python that the
autograd threads call, workers that load data, TorchScript, FFT and linear algebra."""
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.randn(3, 32, 32, generator=generator)
        return (image - image.mean()) / image.std(), i % 10


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(context, grad):
        x, = context.saved_tensors
        return grad * 3 * x ** 2


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.recurrent = nn.LSTM(32, 32, batch_first=True)

    def forward(self, x):
        return self.recurrent(self.layer(x))[0].mean(1)


def model():
    return nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3),
                         nn.GELU(), nn.MaxPool2d(2), nn.Flatten(2), nn.Linear(49, 32), Attends(), nn.Linear(32, 10))


@torch.jit.script
def scripted(x, n: int):
    for i in range(n):
        x = torch.sin(x) + x[:, :4].sum() * 0.01
    return x


def others():
    a = torch.randn(96, 96, dtype=torch.float64)
    torch.linalg.svd(a)
    torch.linalg.solve(a @ a.T + torch.eye(96), a)
    torch.linalg.eigh(a + a.T)
    torch.fft.rfft2(a)
    scripted(a, 5)
    torch.sort(a, dim=0)
    sparse = torch.sparse_coo_tensor(torch.arange(96).repeat(2, 1), torch.ones(96))
    torch.sparse.mm(sparse, a.float())
    torch.quantile(a, 0.3)
    torch.nn.functional.interpolate(a[None, None], scale_factor=2.0, mode="bicubic")


def main():
    torch.manual_seed(1)
    net = model()
    seen = []
    for parameter in net.parameters():
        parameter.register_hook(lambda grad: seen.append(float(grad.abs().max())))
    net[0].register_full_backward_hook(lambda module, inputs, outputs: seen.append(len(outputs)))
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    loss_of = nn.CrossEntropyLoss()
    steps = 0
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for images, labels in DataLoader(Numbers(), batch_size=32, num_workers=2):
            optimizer.zero_grad()
            loss = loss_of(Cube.apply(net(images) * 0.1), labels)
            loss.backward()
            optimizer.step()
            steps += 1
        others()
    print(torch.__version__, steps, "steps")


main()
